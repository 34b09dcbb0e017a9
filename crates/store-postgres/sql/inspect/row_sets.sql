-- The sets of a batch's unfinished lines. There are few leases: all are looked at.
SELECT /* inspect/row_sets */ l.lane, 'untouched' AS place, s.cursor || '-' || l.total - 1 AS lines, 0 AS attempts,
       NULL::timestamptz AS not_before, NULL::uuid AS held_by, NULL::timestamptz AS held_since
  FROM windrow.batch_lanes l
 CROSS JOIN LATERAL (SELECT n.cursor FROM windrow.lane_states n WHERE n.batch_id = l.batch_id AND n.lane = l.lane
                      ORDER BY n.step DESC LIMIT 1) s
 WHERE l.batch_id = $1 AND s.cursor < l.total
UNION ALL
SELECT lane, 'returned', lines, attempts, not_before, NULL, NULL FROM windrow.returned WHERE batch_id = $1
UNION ALL
SELECT lane, 'leased', lines, attempts, NULL, instance_id, granted_at FROM windrow.leases WHERE batch_id = $1
