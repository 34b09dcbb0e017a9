-- Instances not heard of since a time, longest silence first.
SELECT /* member/find_stale */ instance_id
FROM members
WHERE tombstoned_at IS NULL AND heartbeat_at <= ?1
ORDER BY heartbeat_at, instance_id
LIMIT ?2
