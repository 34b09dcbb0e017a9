-- Leases whose time has passed or whose holder is tombstoned. There are few leases: all are looked at.
SELECT /* sweep/find_lost */ id, token, instance_id, batch_id, lane, file_id, target, attempts,
    crashes, generation, version, granted, granted_at, expires_at, lines,
    (SELECT l.due FROM batch_lanes AS l WHERE l.batch_id = leases.batch_id AND l.lane = leases.lane),
    upstream, alone
FROM leases
WHERE expires_at <= ?1
    OR instance_id IN (SELECT instance_id FROM members WHERE tombstoned_at IS NOT NULL)
ORDER BY expires_at, id
LIMIT ?2
