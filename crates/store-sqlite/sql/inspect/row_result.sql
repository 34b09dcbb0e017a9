-- The result of a line, by primary key; its bodies only when asked for.
SELECT /* inspect/row_result */ batch_id, lane, created_at, generation, seq, line, status, attempts,
    custom_id, http_status, shaped, error_code, error, iif(?3, response, NULL), iif(?3, normalised, NULL),
    class
FROM results
WHERE batch_id = ?1 AND line = ?2
