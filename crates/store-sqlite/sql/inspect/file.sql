-- A complete file; the owner is part of the question.
SELECT /* inspect/file */ id, owner, name, purpose, state, lines, bytes, chunks, created_at,
    sealed_at, expires_at, place, batch_id, endpoint, head, original_bytes
FROM files
WHERE id = ?1 AND state IN ('sealed', 'invalid') AND (?2 IS NULL OR owner = ?2)
