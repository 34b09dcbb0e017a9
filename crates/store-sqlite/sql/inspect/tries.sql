-- How much history lines have, by primary key. Given are the classes whose answer is not known, those that use
-- up no attempt, that of a miss, and that of an answer that was not accepted. Behind a result that was put back so that
-- attempts begin anew, those before it count for nothing.
SELECT /* inspect/tries */ a.line, sum(a.times),
    coalesce(sum(a.times) FILTER (WHERE a.class NOT IN (SELECT value FROM json_each(?3))), 0),
    coalesce(sum(a.times) FILTER (WHERE a.class IN (SELECT value FROM json_each(?4)) AND NOT EXISTS (
        SELECT 1 FROM attempts AS r WHERE r.batch_id = a.batch_id AND r.line = a.line
            AND (r.starts_over OR (r.class = 'reprocessed' AND NOT r.put_back))
            AND (r.generation, r.attempt) > (a.generation, a.attempt))), 0),
    coalesce(sum(a.times) FILTER (WHERE a.class = ?5), 0),
    coalesce(sum(a.times) FILTER (WHERE a.class NOT IN (SELECT value FROM json_each(?4)) AND NOT EXISTS (
        SELECT 1 FROM attempts AS r WHERE r.batch_id = a.batch_id AND r.line = a.line
            AND (r.starts_over OR r.class = ?5 OR (r.class = 'reprocessed' AND NOT r.put_back))
            AND (r.generation, r.attempt) >= (a.generation, a.attempt))), 0),
    coalesce(sum(a.times) FILTER (WHERE a.class = ?6 AND NOT EXISTS (
        SELECT 1 FROM attempts AS r WHERE r.batch_id = a.batch_id AND r.line = a.line
            AND (r.starts_over OR r.class = ?5 OR (r.class = 'reprocessed' AND NOT r.put_back))
            AND (r.generation, r.attempt) >= (a.generation, a.attempt))), 0)
FROM attempts AS a
WHERE a.batch_id = ?1 AND a.line IN (SELECT value FROM json_each(?2))
GROUP BY a.line
ORDER BY a.line
