-- How much history lines have, by primary key. The classes whose answer is not known are given.
SELECT /* inspect/tries */ a.line, count(*),
    count(*) FILTER (WHERE a.class NOT IN (SELECT value FROM json_each(?3)))
FROM attempts AS a
WHERE a.batch_id = ?1 AND a.line IN (SELECT value FROM json_each(?2))
GROUP BY a.line
ORDER BY a.line
