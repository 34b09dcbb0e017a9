-- Running batches past their deadline, latest first to go; uses batches_running_idx.
SELECT /* sweep/find_expired */ id
FROM batches
WHERE deadline <= ?1 AND finalizing_at IS NULL AND closed_at IS NULL AND deleted_at IS NULL
    AND state IN ('in_progress', 'paused')
ORDER BY deadline, id
LIMIT ?2
