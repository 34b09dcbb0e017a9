-- Some of the history of a deleted batch.
DELETE FROM attempts /* sweep/reap_attempts */
WHERE batch_id = ?1 AND (line, generation, attempt) IN (
    SELECT line, generation, attempt FROM attempts WHERE batch_id = ?1 LIMIT ?2
)
