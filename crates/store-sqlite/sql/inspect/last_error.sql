-- What went wrong with a line the last time, by primary key.
SELECT /* inspect/last_error */ error_code, error
FROM attempts
WHERE batch_id = ?1 AND line = ?2 AND class <> 'reprocessed'
ORDER BY generation DESC, attempt DESC
LIMIT 1
