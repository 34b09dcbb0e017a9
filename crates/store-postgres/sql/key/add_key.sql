-- Adds a key, or finds those that have its id or its hash. The rows returned are what stands.
WITH /* key/add_key */ made AS (
    INSERT INTO windrow.keys (id, hash, owner, role, name, hint, created_at, expires_at)
    VALUES ($2, $3, $4, $5, $6, $7, coalesce($1, clock_timestamp()), $8)
    ON CONFLICT DO NOTHING
    RETURNING id, hash, owner, role, name, hint, created_at, expires_at, last_used_at, revoked_at
)
SELECT id, hash, owner, role, name, hint, created_at, expires_at, last_used_at, revoked_at FROM made
UNION ALL
SELECT id, hash, owner, role, name, hint, created_at, expires_at, last_used_at, revoked_at FROM windrow.keys WHERE id = $2
UNION
SELECT id, hash, owner, role, name, hint, created_at, expires_at, last_used_at, revoked_at FROM windrow.keys WHERE hash = $3
