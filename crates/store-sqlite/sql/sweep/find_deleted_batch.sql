-- A batch whose rows are to be reaped; uses batches_deleted_idx.
SELECT /* sweep/find_deleted_batch */ id
FROM batches
WHERE deleted_at IS NOT NULL
ORDER BY deleted_at
LIMIT 1
