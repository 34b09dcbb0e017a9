-- Whether a chunk was written already.
SELECT /* ingest/has_chunk */ EXISTS (
    SELECT 1 FROM file_chunks WHERE file_id = ?1 AND no = ?2
)
