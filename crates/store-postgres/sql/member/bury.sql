-- Tombstones an instance that is dead; its leases stay, and are lost. Guarded by the heartbeat that was seen, if one is
-- given. Says whether it is tombstoned now; no row for one that never registered. Locks its row, then judges it.
WITH /* member/bury */ locked AS (
    SELECT instance_id, tombstoned_at, heartbeat_at FROM windrow.members WHERE instance_id = $2 FOR UPDATE
), buried AS (
    UPDATE windrow.members m SET tombstoned_at = coalesce($1, clock_timestamp())
      FROM locked l
     WHERE m.instance_id = l.instance_id AND l.tombstoned_at IS NULL
       AND ($3::timestamptz IS NULL OR l.heartbeat_at = $3)
    RETURNING 1
)
SELECT l.tombstoned_at IS NOT NULL OR EXISTS (SELECT 1 FROM buried) AS buried FROM locked l
