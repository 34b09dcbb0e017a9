-- Everybody, by the time they joined.
SELECT /* member/members */ instance_id, service, host, pid, metadata, joined_at, heartbeat_at, tombstoned_at,
       boot_id, lock_device, lock_inode, lock_path, coalesce($1, clock_timestamp()) AS now
  FROM windrow.members ORDER BY joined_at, instance_id
