-- One more throttled attempt behind another: the entry of the last one stands for both. By primary key.
UPDATE attempts /* record/repeat_attempt */
SET attempt = ?4, times = times + 1, not_before = ?6, created_at = ?7, error_code = ?8, error = ?9
WHERE batch_id = ?1 AND line = ?2 AND generation = ?3 AND attempt = ?4 - 1 AND class = ?5
