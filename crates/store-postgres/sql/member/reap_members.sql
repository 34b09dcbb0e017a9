-- Tombstones instances not heard of for too long; skips those another sweep is at.
WITH /* member/reap_members */ stale AS (
    SELECT instance_id FROM windrow.members
     WHERE tombstoned_at IS NULL AND heartbeat_at <= (SELECT coalesce($1, clock_timestamp())) - $2 * interval '1 ms'
     ORDER BY heartbeat_at LIMIT $3 FOR UPDATE SKIP LOCKED
)
UPDATE windrow.members m SET tombstoned_at = coalesce($1, clock_timestamp())
  FROM stale WHERE m.instance_id = stale.instance_id
RETURNING m.instance_id
