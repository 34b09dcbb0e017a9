-- The sets that pending lines are in, in page order, without their lines. Goes from the lanes that
-- are not done (batch_lanes_live_idx) to their returned rows, and over all leases.
-- ?1 owner, ?2 batch, ?3 job type, ?4 from, ?5 to, ?6 last page's time, ?7..?9 places wanted.
WITH /* inspect/pending_sets */
live (batch_id, lane, target, owner, job_type, file_id, created_at, total, cursor) AS (
    SELECT l.batch_id, l.lane, l.target, l.owner, b.job_type, l.file_id, l.created_at, l.total,
        l.cursor
    FROM batch_lanes AS l
    CROSS JOIN batches AS b ON b.id = l.batch_id
    WHERE l.phase <> 'done' AND b.deleted_at IS NULL AND b.state IN ('in_progress', 'paused')
        AND (?1 IS NULL OR l.owner = ?1) AND (?2 IS NULL OR l.batch_id = ?2)
        AND (?3 IS NULL OR b.job_type = ?3)
),
sets (updated_at, batch_id, lane, place, set_id, lo, hi, target, owner, job_type, file_id, attempts,
      crashes, not_before, held_by) AS (
    SELECT created_at, batch_id, lane, 0, NULL, cursor, total - 1, target, owner, job_type, file_id,
        0, 0, NULL, NULL
    FROM live
    WHERE ?7 AND cursor < total
    UNION ALL
    SELECT r.updated_at, r.batch_id, r.lane, 1, r.id, 0, 0, v.target, v.owner, v.job_type, v.file_id,
        r.attempts, r.crashes, r.not_before, NULL
    FROM live AS v
    CROSS JOIN returned AS r ON r.batch_id = v.batch_id AND r.lane = v.lane
    WHERE ?8
    UNION ALL
    SELECT e.granted_at, e.batch_id, e.lane, 2, e.id, 0, 0, e.target, e.owner, b.job_type, e.file_id,
        e.attempts, e.crashes, NULL, e.instance_id
    FROM leases AS e
    CROSS JOIN batches AS b ON b.id = e.batch_id
    WHERE ?9 AND b.deleted_at IS NULL
        AND b.state IN ('in_progress', 'paused', 'cancelling', 'expiring')
        AND (?1 IS NULL OR e.owner = ?1) AND (?2 IS NULL OR e.batch_id = ?2)
        AND (?3 IS NULL OR b.job_type = ?3)
)
SELECT updated_at, batch_id, lane, place, set_id, lo, hi, target, owner, job_type, file_id, attempts,
    crashes, not_before, held_by
FROM sets
WHERE (?4 IS NULL OR updated_at >= ?4) AND (?5 IS NULL OR updated_at < ?5)
    AND (?6 IS NULL OR updated_at >= ?6)
ORDER BY updated_at, batch_id, lane
