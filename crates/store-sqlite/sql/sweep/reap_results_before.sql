-- Some earlier results of a deleted batch.
DELETE FROM results_before /* sweep/reap_results_before */
WHERE batch_id = ?1 AND (line, generation) IN (
    SELECT line, generation FROM results_before WHERE batch_id = ?1 ORDER BY line, generation LIMIT ?2
)
