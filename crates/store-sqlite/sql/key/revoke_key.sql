-- Takes a key out of use; one that is out of use already keeps its time.
UPDATE keys /* key/revoke_key */ SET revoked_at = ?1 WHERE id = ?2 AND revoked_at IS NULL
