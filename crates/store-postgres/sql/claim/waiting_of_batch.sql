-- Routes of one batch with lines to claim now or later, and how long until the first of them. By primary key.
WITH /* claim/waiting_of_batch */ moment AS MATERIALIZED (SELECT coalesce($1, clock_timestamp()) AS now)
SELECT l.upstream, l.target,
       min(CASE WHEN l.ready_at <= m.now THEN 0
                ELSE ceil(extract(epoch FROM l.ready_at - m.now) * 1000000) END)::bigint AS ready_in_us
  FROM windrow.batch_lanes l CROSS JOIN moment m
 WHERE l.batch_id = $4 AND l.upstream = ANY ($3::text[]) AND l.ready_at IS NOT NULL
   AND (l.deadline IS NULL OR l.deadline > m.now)
 GROUP BY l.upstream, l.target ORDER BY l.upstream, l.target LIMIT $2
