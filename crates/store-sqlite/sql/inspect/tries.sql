-- How much history lines have, by primary key. The classes whose answer is not known are given, those that use
-- up no attempt, and that of a result that was put back: attempts before one count for nothing.
SELECT /* inspect/tries */ a.line, sum(a.times),
    coalesce(sum(a.times) FILTER (WHERE a.class NOT IN (SELECT value FROM json_each(?3))), 0),
    coalesce(sum(a.times) FILTER (WHERE a.class IN (SELECT value FROM json_each(?4)) AND NOT EXISTS (
        SELECT 1 FROM attempts AS r WHERE r.batch_id = a.batch_id AND r.line = a.line AND r.class = ?5
            AND (r.generation, r.attempt) > (a.generation, a.attempt))), 0)
FROM attempts AS a
WHERE a.batch_id = ?1 AND a.line IN (SELECT value FROM json_each(?2))
GROUP BY a.line
ORDER BY a.line
