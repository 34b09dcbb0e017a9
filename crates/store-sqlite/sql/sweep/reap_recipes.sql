-- Some recipes of a deleted batch.
DELETE FROM batch_recipes /* sweep/reap_recipes */
WHERE batch_id = ?1 AND generation IN (SELECT generation FROM batch_recipes WHERE batch_id = ?1 LIMIT ?2)
