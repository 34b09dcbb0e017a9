-- An instance is alive. Guarded: a tombstoned one stays so.
UPDATE members /* member/heartbeat */
SET heartbeat_at = ?2
WHERE instance_id = ?1 AND tombstoned_at IS NULL
