-- A key, whatever became of it; the owner is part of the question.
SELECT /* key/find */ id, owner, role, name, hint, created_at, expires_at, last_used_at, revoked_at
FROM keys
WHERE id = ?1 AND (?2 IS NULL OR owner = ?2)
