-- The consumers that a message still waits for. No tries are behind them.
UPDATE messages /* message/commit_consumed */
SET waiting = ?4, attempts = 0, started = NULL
WHERE partition = ?1 AND stream_no = ?2 AND position = ?3
