-- Outputs go with the batches that were pruned just now; uses batches_deleted_idx and files_batch_idx.
UPDATE files /* sweep/prune_outputs */ SET state = 'dropped', touched_at = ?1
WHERE state <> 'dropped' AND batch_id IN (SELECT id FROM batches WHERE deleted_at = ?1)
