-- Complete files, newest first, by key. Uses files_by_owner or files_by_time.
SELECT /* inspect/files */ id, owner, name, purpose, state, lines, bytes, chunks, created_at, sealed_at, expires_at,
       place, batch_id, endpoint, NULL::text AS head, original_bytes
  FROM windrow.files
 WHERE ($1::text IS NULL OR owner = $1) AND state IN ('sealed', 'invalid') AND ($2::text IS NULL OR purpose = $2)
   AND ($3::timestamptz IS NULL OR (created_at, id) < ($3, $4))
 ORDER BY created_at DESC, id DESC LIMIT $5
