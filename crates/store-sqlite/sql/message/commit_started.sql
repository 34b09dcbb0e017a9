-- A try begins and counts.
UPDATE messages /* message/commit_started */
SET attempts = attempts + 1, started = ?4
WHERE partition = ?1 AND stream_no = ?2 AND position = ?3
