-- Members that left long ago and hold nothing are forgotten.
DELETE FROM members /* sweep/prune_members */
WHERE instance_id IN (
    SELECT instance_id FROM members
    WHERE tombstoned_at <= ?1 AND instance_id NOT IN (SELECT instance_id FROM leases)
    ORDER BY tombstoned_at
    LIMIT ?2
)
