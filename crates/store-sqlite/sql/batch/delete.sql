-- Makes a batch vanish; its rows are reaped later.
UPDATE batches /* batch/delete */ SET deleted_at = ?2 WHERE id = ?1 AND deleted_at IS NULL
