-- Routes of some upstreams with lines to claim now or later, and how long until the first of them. Steps from target to
-- target of each upstream in lanes_ready, and there to a lane that is ready now; looks at all lanes of a route only when
-- it has none. Not routes whose batches are all past their window. Of too many, each upstream's first targets come before
-- any upstream's later ones.
WITH RECURSIVE /* claim/waiting */ moment AS MATERIALIZED (SELECT coalesce($1, clock_timestamp()) AS now),
walk AS (
    SELECT u.upstream, (SELECT l.target FROM windrow.batch_lanes l
                         WHERE l.upstream = u.upstream AND l.ready_at IS NOT NULL ORDER BY l.target LIMIT 1) AS target,
           1 AS n
      FROM unnest($3::text[]) u(upstream)
    UNION ALL
    SELECT w.upstream, (SELECT l.target FROM windrow.batch_lanes l
                         WHERE l.upstream = w.upstream AND l.target > w.target AND l.ready_at IS NOT NULL
                         ORDER BY l.target LIMIT 1), w.n + 1
      FROM walk w WHERE w.target IS NOT NULL AND w.n < $2
)
SELECT upstream, target, ready_in_us FROM (
SELECT w.upstream, w.target, coalesce(
           -- In the index's order, or the planner would rather scan the table until it meets a lane that is ready.
           (SELECT 0 FROM windrow.batch_lanes l
             WHERE l.upstream = w.upstream AND l.target = w.target AND l.ready_at <= m.now
               AND (l.deadline IS NULL OR l.deadline > m.now)
             ORDER BY l.owner, l.priority DESC, l.deadline, l.batch_id, l.lane LIMIT 1),
           (SELECT ceil(extract(epoch FROM min(l.ready_at) - m.now) * 1000000)::bigint
              FROM windrow.batch_lanes l
             WHERE l.upstream = w.upstream AND l.target = w.target AND l.ready_at > m.now
               AND (l.deadline IS NULL OR l.deadline > m.now))) AS ready_in_us
  FROM walk w CROSS JOIN moment m WHERE w.target IS NOT NULL
) found WHERE ready_in_us IS NOT NULL LIMIT $2
