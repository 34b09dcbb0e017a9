-- An instance is dead; its leases stay, and are lost. Guarded by the heartbeat that was seen, if one
-- is given.
UPDATE members /* member/bury */
SET tombstoned_at = ?2
WHERE instance_id = ?1 AND tombstoned_at IS NULL AND (?3 IS NULL OR heartbeat_at = ?3)
