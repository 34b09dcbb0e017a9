-- A file's row, whatever its state.
SELECT /* ingest/find_file */ id, owner, name, purpose, state, lines, bytes, chunks, created_at,
    sealed_at, expires_at, place, batch_id, endpoint, head, original_bytes
FROM files
WHERE id = ?1
