-- The key with that hash, if it may be used now. Locks nothing.
SELECT /* key/find_key */ id, owner, role, name, hint, created_at, expires_at, last_used_at, revoked_at
  FROM windrow.keys
 WHERE hash = $2 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > coalesce($1, clock_timestamp()))
