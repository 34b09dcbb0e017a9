-- Targets with lines to claim now or later, and how long until the first of them. Steps from target to target in
-- lanes_ready, and there to a lane that is ready now; looks at all lanes of a target only when it has none.
WITH RECURSIVE /* claim/waiting */ moment AS MATERIALIZED (SELECT coalesce($1, clock_timestamp()) AS now),
walk AS (
    (SELECT l.target, 1 AS n FROM windrow.batch_lanes l WHERE l.ready_at IS NOT NULL ORDER BY l.target LIMIT 1)
    UNION ALL
    SELECT (SELECT l.target FROM windrow.batch_lanes l
             WHERE l.target > w.target AND l.ready_at IS NOT NULL ORDER BY l.target LIMIT 1), w.n + 1
      FROM walk w WHERE w.target IS NOT NULL AND w.n < $2
)
SELECT w.target, coalesce(
           -- In the index's order, or the planner would rather scan the table until it meets a lane that is ready.
           (SELECT 0 FROM windrow.batch_lanes l WHERE l.target = w.target AND l.ready_at <= m.now
             ORDER BY l.owner, l.priority DESC, l.deadline, l.batch_id, l.lane LIMIT 1),
           (SELECT ceil(extract(epoch FROM min(l.ready_at) - m.now) * 1000000)::bigint
              FROM windrow.batch_lanes l WHERE l.target = w.target AND l.ready_at > m.now)) AS ready_in_us
  FROM walk w CROSS JOIN moment m WHERE w.target IS NOT NULL
