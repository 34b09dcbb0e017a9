-- The lanes of a batch with their counts.
SELECT /* inspect/lanes */ l.lane, l.upstream, l.target, l.phase, l.total, s.cursor, s.returned, s.leased, s.completed, s.failed,
       s.not_found, s.skipped
  FROM windrow.batch_lanes l
 CROSS JOIN LATERAL (SELECT * FROM windrow.lane_states n WHERE n.batch_id = l.batch_id AND n.lane = l.lane
                      ORDER BY n.step DESC LIMIT 1) s
 WHERE l.batch_id = $1 ORDER BY l.lane
