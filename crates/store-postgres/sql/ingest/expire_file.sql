-- Says when a file that is open may be dropped. Locks its row; uses files_pkey.
UPDATE /* ingest/expire_file */ windrow.files SET expires_at = $2
 WHERE id = $1 AND state = 'open' RETURNING id
