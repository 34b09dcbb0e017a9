-- A new window from now on: of the given length, or as long as the last one.
UPDATE batches /* batch/begin_window */
SET window_secs = ifnull(?3, window_secs), deadline = ?2 + ifnull(?3, window_secs) * 1000000
WHERE id = ?1
