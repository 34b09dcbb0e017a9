-- The newest result of a line of an earlier generation, by primary key; its bodies only when asked for.
SELECT /* inspect/row_result_before */ batch_id, lane, created_at, generation, seq, line, status, attempts,
    custom_id, http_status, shaped, error_code, error, iif(?3, response, NULL), iif(?3, normalised, NULL),
    class
FROM results_before
WHERE batch_id = ?1 AND line = ?2
ORDER BY generation DESC
LIMIT 1
