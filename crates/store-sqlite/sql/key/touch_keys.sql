-- Notes when a key was used.
UPDATE keys /* key/touch_keys */ SET last_used_at = max(ifnull(last_used_at, ?1), ?1) WHERE id = ?2
