-- Streams of a name, in the order of a page; goes from owner to owner through streams_by_name.
WITH RECURSIVE /* message/find_streams */ w (owner) AS (
    SELECT ifnull(?3, (SELECT min(f.owner) FROM streams AS f))
    UNION ALL
    SELECT (SELECT min(n.owner) FROM streams AS n WHERE n.owner > w.owner)
    FROM w
    WHERE ?3 IS NULL AND w.owner IS NOT NULL
)
SELECT s.partition, s.no
FROM w
CROSS JOIN streams AS s ON s.owner = w.owner AND s.queue IN (0, 1, 2) AND s.name = ?1
WHERE ?2 IS NULL OR s.queue = ?2
ORDER BY s.partition, s.no
