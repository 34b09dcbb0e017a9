-- Some lanes of a deleted batch.
DELETE FROM batch_lanes /* sweep/reap_lanes */
WHERE batch_id = ?1 AND lane IN (SELECT lane FROM batch_lanes WHERE batch_id = ?1 LIMIT ?2)
