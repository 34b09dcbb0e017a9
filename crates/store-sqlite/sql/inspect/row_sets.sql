-- The sets of a batch's unfinished lines. There are few leases: all are looked at.
SELECT /* inspect/row_sets */ lane, 0, cursor || '-' || (total - 1), 0, NULL, NULL, NULL
FROM batch_lanes
WHERE batch_id = ?1 AND cursor < total
UNION ALL
SELECT lane, 1, lines, attempts, not_before, NULL, NULL FROM returned WHERE batch_id = ?1
UNION ALL
SELECT lane, 2, lines, attempts, NULL, instance_id, granted_at FROM leases WHERE batch_id = ?1
