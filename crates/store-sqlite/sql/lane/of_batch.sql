-- Every lane of one batch with its places, by number.
SELECT /* lane/of_batch */ batch_id, lane, phase, claimable_at,
    total, cursor, returned, leased, completed, failed, not_found, skipped, upstream
FROM batch_lanes
WHERE batch_id = ?1
ORDER BY lane
