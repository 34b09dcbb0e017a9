-- What went wrong with a line last, by primary key.
SELECT /* inspect/row_error */ error_code, error
FROM attempts
WHERE batch_id = ?1 AND line = ?2
ORDER BY generation DESC, attempt DESC
LIMIT 1
