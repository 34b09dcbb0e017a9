-- One result; a line has at most one.
INSERT INTO results /* record/insert_result */
    (batch_id, line, lane, seq, status, attempts, generation, created_at, http_status, custom_id,
     error_code, error, shaped, response, normalised, class)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
