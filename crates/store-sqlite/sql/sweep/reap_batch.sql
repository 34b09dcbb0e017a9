-- The row of a deleted batch, last of all.
DELETE FROM batches /* sweep/reap_batch */
WHERE id = ?1 AND deleted_at IS NOT NULL AND ?2 > 0
