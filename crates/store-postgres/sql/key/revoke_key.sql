-- Takes a key out of use; one that is out of use already keeps its time.
UPDATE /* key/revoke_key */ windrow.keys SET revoked_at = coalesce(revoked_at, $1, clock_timestamp())
 WHERE id = $2 AND ($3::text IS NULL OR owner = $3)
RETURNING id, owner, role, name, hint, created_at, expires_at, last_used_at, revoked_at
