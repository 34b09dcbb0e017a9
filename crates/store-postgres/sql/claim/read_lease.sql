-- The lease row itself, by primary key; none to a holder that was tombstoned.
SELECT /* claim/read_lease */ id, token, instance_id, batch_id, lane, file_id, target, attempts, crashes, generation, lines, version, granted_at,
       expires_at
  FROM windrow.leases l
 WHERE id = $1 AND NOT EXISTS (
    SELECT 1 FROM windrow.members m WHERE m.instance_id = l.instance_id AND m.tombstoned_at IS NOT NULL)
