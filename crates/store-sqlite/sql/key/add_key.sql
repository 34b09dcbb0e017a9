-- A new key.
INSERT INTO keys /* key/add_key */
    (id, hash, owner, role, name, hint, created_at, expires_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
