-- A complete file.
SELECT /* inspect/file */ id, owner, name, purpose, state, lines, bytes, chunks, created_at, sealed_at, expires_at,
       place, batch_id, endpoint, head, original_bytes
  FROM windrow.files
 WHERE id = $1 AND ($2::text IS NULL OR owner = $2) AND state IN ('sealed', 'invalid')
