-- A call has its answer. Guarded: one that has one keeps it. An answer that comes when its time is over is kept for a day.
UPDATE calls /* call/commit_calls */
SET state = ?3, reply = ?4, error = ?5, instance = ?7, processed_at = ?6,
    updated_at = ?6, expires_at = CASE WHEN expires_at <= ?6 THEN ?6 + 86400000000 ELSE expires_at END
WHERE owner = ?1 AND request_id = ?2 AND state < 2
