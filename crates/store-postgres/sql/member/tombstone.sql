-- Leaves. No row for an instance that never registered.
UPDATE /* member/tombstone */ windrow.members
   SET tombstoned_at = coalesce(tombstoned_at, $1, clock_timestamp())
 WHERE instance_id = $2 RETURNING instance_id
