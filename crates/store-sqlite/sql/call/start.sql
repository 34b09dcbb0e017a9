-- An instance begins with a call. Guarded: one that has its answer keeps it.
UPDATE calls /* call/start */
SET state = 1, instance = ?3, updated_at = ?4
WHERE owner = ?1 AND request_id = ?2 AND state < 2
