-- One failed try in a line's history; a repeat changes nothing.
INSERT INTO attempts /* record/insert_attempt */
    (batch_id, line, generation, attempt, class, not_before, created_at, error_code, error)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT DO NOTHING
