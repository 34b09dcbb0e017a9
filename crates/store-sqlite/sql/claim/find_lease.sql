-- One lease by its id.
SELECT /* claim/find_lease */ id, token, instance_id, batch_id, lane, file_id, target, attempts,
    crashes, generation, version, granted, granted_at, expires_at, lines,
    (SELECT l.due FROM batch_lanes AS l WHERE l.batch_id = leases.batch_id AND l.lane = leases.lane),
    upstream, alone
FROM leases
WHERE id = ?1
