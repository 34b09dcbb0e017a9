-- Every lease of one instance. There are few leases: they are looked through.
SELECT /* claim/leases_of_instance */ id, token, instance_id, batch_id, lane, file_id, target,
    attempts, crashes, generation, version, granted, granted_at, expires_at, lines,
    (SELECT l.due FROM batch_lanes AS l WHERE l.batch_id = leases.batch_id AND l.lane = leases.lane),
    upstream, alone
FROM leases
WHERE instance_id = ?1
ORDER BY id
