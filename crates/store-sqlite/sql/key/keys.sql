-- Everybody's keys, newest first, by key; uses keys_created_idx.
SELECT /* key/keys */ id, owner, role, name, hint, created_at, expires_at, last_used_at, revoked_at
FROM keys
WHERE (created_at, id) < (?1, ?2)
ORDER BY created_at DESC, id DESC
LIMIT ?3
