-- A result that runs again stays in the line's history: under the number of its last try, or the next
-- one when that try has an entry already (a line whose worker was lost). ?4 its class, ?7 when it is due, ?8
-- whether attempts begin anew.
INSERT INTO attempts /* batch/keep_result */
    (batch_id, line, generation, attempt, class, not_before, created_at, error_code, error, put_back, starts_over)
SELECT r.batch_id, r.line, r.generation, r.attempts + EXISTS (
        SELECT 1 FROM attempts AS a WHERE a.batch_id = r.batch_id AND a.line = r.line
            AND a.generation = r.generation AND a.attempt = r.attempts
    ), ?4, ?7, ?3, ifnull(r.error_code, ?5), ifnull(r.error, ?6), 1, ?8
FROM results AS r
WHERE r.batch_id = ?1 AND r.line = ?2
ON CONFLICT DO NOTHING
