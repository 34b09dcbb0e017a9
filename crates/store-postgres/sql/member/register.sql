-- Joins, or counts as a heartbeat that says anew what the instance is. No row for the id of a tombstoned instance.
INSERT /* member/register */ INTO windrow.members (instance_id, service, host, pid, metadata, joined_at, heartbeat_at,
       boot_id, lock_device, lock_inode, lock_path)
VALUES ($2, $3, $4, $5, $6, coalesce($1, clock_timestamp()), coalesce($1, clock_timestamp()), $7, $8, $9, $10)
ON CONFLICT (instance_id) DO UPDATE SET heartbeat_at = excluded.heartbeat_at, metadata = excluded.metadata
 WHERE windrow.members.tombstoned_at IS NULL
RETURNING instance_id
