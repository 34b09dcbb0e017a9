-- A try went wrong; it counts unless it was counted when it began.
UPDATE messages /* message/commit_failed */
SET attempts = attempts + (?4 AND started IS NULL), started = NULL, error = ?5, not_before = ?6,
    history = ?7, waiting = ifnull(?8, waiting)
WHERE partition = ?1 AND stream_no = ?2 AND position = ?3
