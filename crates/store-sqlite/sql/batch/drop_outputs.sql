-- Makes the outputs of a batch vanish; uses files_batch_idx. Their bytes are removed before their rows.
UPDATE files /* batch/drop_outputs */ SET state = 'dropped', touched_at = ?2
WHERE batch_id = ?1 AND state <> 'dropped'
