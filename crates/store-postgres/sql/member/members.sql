-- Everybody, by the time they joined.
SELECT /* member/members */ instance_id, service, host, pid, metadata, joined_at, heartbeat_at, tombstoned_at
  FROM windrow.members ORDER BY joined_at, instance_id
