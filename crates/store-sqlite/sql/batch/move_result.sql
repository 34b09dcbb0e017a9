-- A result that runs again becomes one of an earlier generation.
INSERT INTO results_before /* batch/move_result */
    (batch_id, line, generation, lane, seq, status, attempts, created_at, http_status, custom_id,
     error_code, error, shaped, response, normalised, class)
SELECT batch_id, line, generation, lane, seq, status, attempts, created_at, http_status, custom_id,
    error_code, error, shaped, response, normalised, class
FROM results
WHERE batch_id = ?1 AND line = ?2
