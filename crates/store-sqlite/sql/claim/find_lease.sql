-- One lease by its id.
SELECT /* claim/find_lease */ id, token, instance_id, batch_id, lane, file_id, target, attempts,
    crashes, generation, version, granted, granted_at, expires_at, lines
FROM leases
WHERE id = ?1
