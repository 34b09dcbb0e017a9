-- An owner's keys, newest first, by key; uses keys_owner_idx.
SELECT /* key/keys_of_owner */ id, owner, role, name, hint, created_at, expires_at, last_used_at,
    revoked_at
FROM keys
WHERE owner = ?4 AND (created_at, id) < (?1, ?2)
ORDER BY created_at DESC, id DESC
LIMIT ?3
