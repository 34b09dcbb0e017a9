-- Counts a chunk. Guarded by the number of chunks it follows.
UPDATE files /* ingest/grow_file */
SET chunks = chunks + 1, lines = lines + ?3, bytes = bytes + ?4, touched_at = ?5
WHERE id = ?1 AND chunks = ?2 AND state = 'open'
