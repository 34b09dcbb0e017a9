-- How many bytes each chunk of a file has, in order.
SELECT /* inspect/chunk_sizes */ bytes FROM file_chunks WHERE file_id = ?1 ORDER BY no
