-- Says what may happen to a lane from now on.
UPDATE batch_lanes /* lane/settle */
SET phase = ?3, ready_at = ?4
WHERE batch_id = ?1 AND lane = ?2
