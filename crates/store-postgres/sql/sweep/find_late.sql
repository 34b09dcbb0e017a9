-- Batches past their deadline, the latest first. The clock is read once, so that batches_running serves.
SELECT /* sweep/find_late */ id, state FROM windrow.batches
 WHERE state IN ('in_progress', 'paused') AND deadline <= (SELECT coalesce($1, clock_timestamp())) AND deleted_at IS NULL
 ORDER BY deadline LIMIT $2
