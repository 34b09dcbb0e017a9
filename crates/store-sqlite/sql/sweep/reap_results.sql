-- Some results of a deleted batch.
DELETE FROM results /* sweep/reap_results */
WHERE batch_id = ?1 AND line IN (
    SELECT line FROM results WHERE batch_id = ?1 ORDER BY line LIMIT ?2
)
