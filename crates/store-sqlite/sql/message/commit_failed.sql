-- A try went wrong; it counts, or is taken back when it was counted as it began.
UPDATE messages /* message/commit_failed */
SET attempts = attempts + iif(?4, started IS NULL, -(started IS NOT NULL)), started = NULL, error = ?5, not_before = ?6,
    history = ?7, waiting = ifnull(?8, waiting)
WHERE partition = ?1 AND stream_no = ?2 AND position = ?3
