-- Batches past their deadline, latest first in line.
SELECT /* sweep/find_late */ id, state FROM windrow.batches
 WHERE state IN ('in_progress', 'paused') AND deadline <= coalesce($1, clock_timestamp()) AND deleted_at IS NULL
 ORDER BY deadline LIMIT $2
