-- Nobody answers a call any more: it fails. Guarded: one that has its answer keeps it.
UPDATE calls /* call/end_unanswered */
SET state = 3, reply = NULL, error = ?3, processed_at = ?4, updated_at = ?4,
    expires_at = CASE WHEN expires_at <= ?4 THEN ?4 + 86400000000 ELSE expires_at END
WHERE owner = ?1 AND request_id = ?2 AND state < 2
