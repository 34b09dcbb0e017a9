-- Says when a file that is open may be dropped.
UPDATE files /* ingest/expire_file */ SET expires_at = ?2 WHERE id = ?1 AND state = 'open'
