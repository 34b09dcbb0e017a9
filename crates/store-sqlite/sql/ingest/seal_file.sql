-- Fixes a file that is open.
UPDATE files /* ingest/seal_file */
SET state = ?2, errors = ?3, sealed_at = ?4, touched_at = ?4, endpoint = ?5
WHERE id = ?1 AND state = 'open'
