-- Targets with lines to claim now or later, and how long until the first of them. Steps from target to target in
-- lanes_ready; looks at all lanes of a target only when none is ready now.
WITH RECURSIVE /* claim/waiting */ moment AS MATERIALIZED (SELECT coalesce($1, clock_timestamp()) AS now),
walk AS (
    (SELECT l.target, 1 AS n FROM windrow.batch_lanes l WHERE l.ready_at IS NOT NULL ORDER BY l.target LIMIT 1)
    UNION ALL
    SELECT (SELECT l.target FROM windrow.batch_lanes l
             WHERE l.target > w.target AND l.ready_at IS NOT NULL ORDER BY l.target LIMIT 1), w.n + 1
      FROM walk w WHERE w.target IS NOT NULL AND w.n < $2
)
SELECT w.target, CASE WHEN EXISTS (
           SELECT 1 FROM windrow.batch_lanes l WHERE l.target = w.target AND l.ready_at <= m.now) THEN 0
       ELSE (SELECT ceil(extract(epoch FROM min(l.ready_at) - m.now) * 1000000)::bigint
               FROM windrow.batch_lanes l WHERE l.target = w.target AND l.ready_at > m.now) END AS ready_in_us
  FROM walk w CROSS JOIN moment m WHERE w.target IS NOT NULL
