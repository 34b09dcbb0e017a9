-- The consumers that a message still waits for.
UPDATE messages /* message/commit_consumed */
SET waiting = ?4
WHERE partition = ?1 AND stream_no = ?2 AND position = ?3
