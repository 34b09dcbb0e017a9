-- Keys, newest first, by key. Uses keys_by_owner or keys_by_time.
SELECT /* key/keys */ id, owner, role, name, hint, created_at, expires_at, last_used_at, revoked_at
  FROM windrow.keys
 WHERE ($1::text IS NULL OR owner = $1) AND ($2::timestamptz IS NULL OR (created_at, id) < ($2, $3))
 ORDER BY created_at DESC, id DESC LIMIT $4
