-- A call waits for another try. Guarded: one that has its answer keeps it.
UPDATE calls /* call/give_back */
SET state = 0, updated_at = ?3
WHERE owner = ?1 AND request_id = ?2 AND state < 2
