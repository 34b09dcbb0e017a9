-- A call becomes a tombstone: its id still refuses to run again.
UPDATE calls_archive /* call/expire */
SET state = 4, args = x'', reply = NULL, error = NULL, updated_at = ?3
WHERE owner = ?1 AND request_id = ?2
