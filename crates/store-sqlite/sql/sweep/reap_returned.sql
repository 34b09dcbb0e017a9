-- Some returned sets of a deleted batch.
DELETE FROM returned /* sweep/reap_returned */
WHERE id IN (SELECT id FROM returned WHERE batch_id = ?1 LIMIT ?2)
