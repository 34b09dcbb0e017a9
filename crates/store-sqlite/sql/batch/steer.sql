-- Moves a batch to another state. Guarded by the state it was judged in.
UPDATE batches /* batch/steer */
SET state = ?3, last_error = ifnull(?4, last_error), cancelling_at = ifnull(cancelling_at, ?5)
WHERE id = ?1 AND state = ?2
