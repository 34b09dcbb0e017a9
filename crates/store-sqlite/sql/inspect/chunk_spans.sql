-- Which pieces make up a chunk.
SELECT /* inspect/chunk_spans */ spans FROM file_chunks WHERE file_id = ?1 AND no = ?2
