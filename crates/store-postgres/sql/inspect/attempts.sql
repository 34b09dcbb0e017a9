-- The failed tries of a line, oldest first.
SELECT /* inspect/attempts */ * FROM windrow.attempts WHERE batch_id = $1 AND line = $2 ORDER BY generation, attempt
