-- Keys that have this id or this hash; uses the unique indexes.
SELECT /* key/find_repeat */ id, owner, role, name, hint, created_at, expires_at, last_used_at,
    revoked_at, hash
FROM keys
WHERE id = ?1
UNION
SELECT id, owner, role, name, hint, created_at, expires_at, last_used_at, revoked_at, hash
FROM keys
WHERE hash = ?2
