-- Says that an instance is alive; alive says whether it still is a member. No row for one that never registered.
WITH /* member/heartbeat */ beat AS (
    UPDATE windrow.members SET heartbeat_at = coalesce($1, clock_timestamp())
     WHERE instance_id = $2 AND tombstoned_at IS NULL RETURNING 1
)
SELECT EXISTS (SELECT 1 FROM beat) AS alive FROM windrow.members WHERE instance_id = $2
