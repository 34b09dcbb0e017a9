-- A call has its answer. Guarded: one that has one keeps it.
UPDATE calls /* call/commit_calls */
SET state = ?3, reply = ?4, error = ?5, instance = ?7, processed_at = ?6,
    updated_at = ?6
WHERE owner = ?1 AND request_id = ?2 AND state < 2
