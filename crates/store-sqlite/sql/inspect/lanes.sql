-- The lanes of a batch with their places, by number.
SELECT /* inspect/lanes */ lane, target, phase,
    total, cursor, returned, leased, completed, failed, not_found, skipped, upstream
FROM batch_lanes
WHERE batch_id = ?1
ORDER BY lane
