-- The last lane is done: the batch waits to be finalised. Guarded by the state it was judged in.
UPDATE batches /* lane/flip_batch */
SET state = ?3, finalizing_at = ?4, final_token = NULL, final_by = NULL, final_until = NULL
WHERE id = ?1 AND state = ?2
