-- Some of what was done to a deleted batch.
DELETE FROM acts /* sweep/reap_acts */
WHERE batch_id = ?1 AND id IN (SELECT id FROM acts WHERE batch_id = ?1 LIMIT ?2)
