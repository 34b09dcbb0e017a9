-- Moves lines between the places of one lane; the only statement that changes its counts.
UPDATE batch_lanes /* lane/fold */
SET cursor = cursor + ?3,
    returned = returned + ?4,
    leased = leased + ?5,
    completed = completed + ?6,
    failed = failed + ?7,
    not_found = not_found + ?8,
    skipped = skipped + ?9
WHERE batch_id = ?1 AND lane = ?2
RETURNING batch_id, lane, phase, claimable_at,
    total, cursor, returned, leased, completed, failed, not_found, skipped, upstream
