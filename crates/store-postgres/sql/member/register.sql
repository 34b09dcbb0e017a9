-- Joins, or counts as a heartbeat. No row for the id of a tombstoned instance.
INSERT /* member/register */ INTO windrow.members (instance_id, service, host, pid, metadata, joined_at, heartbeat_at)
VALUES ($2, $3, $4, $5, $6, coalesce($1, clock_timestamp()), coalesce($1, clock_timestamp()))
ON CONFLICT (instance_id) DO UPDATE SET heartbeat_at = excluded.heartbeat_at
 WHERE windrow.members.tombstoned_at IS NULL
RETURNING instance_id
