-- The failed tries of a line, oldest first.
SELECT /* inspect/attempts */ generation, attempt, class, error_code, error, not_before, created_at, times,
    put_back OR class = 'reprocessed'
FROM attempts
WHERE batch_id = ?1 AND line = ?2
ORDER BY generation, attempt
