-- Makes the outputs of a deleted batch vanish, behind the statement that deleted it and holds its row. Uses files_by_batch.
UPDATE /* batch/drop_outputs */ windrow.files SET state = 'dropped'
 WHERE batch_id = $1 AND state <> 'dropped'
   AND EXISTS (SELECT 1 FROM windrow.batches WHERE id = $1 AND deleted_at IS NOT NULL)
