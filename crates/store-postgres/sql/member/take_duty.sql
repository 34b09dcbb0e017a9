-- Takes a duty that is free, whose holder's time has passed or who is tombstoned, or that is the caller's already.
-- No row when somebody else has it, or for a tombstoned caller.
INSERT /* member/take_duty */ INTO windrow.duties AS d (name, instance_id, until)
SELECT $3, $2, coalesce($1, clock_timestamp()) + $4 * interval '1 ms'
 WHERE NOT EXISTS (SELECT 1 FROM windrow.members m WHERE m.instance_id = $2 AND m.tombstoned_at IS NOT NULL)
ON CONFLICT (name) DO UPDATE SET instance_id = excluded.instance_id, until = excluded.until
 WHERE d.instance_id = excluded.instance_id OR d.until <= coalesce($1, clock_timestamp())
    OR EXISTS (SELECT 1 FROM windrow.members m WHERE m.instance_id = d.instance_id AND m.tombstoned_at IS NOT NULL)
RETURNING d.name
