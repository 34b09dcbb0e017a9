-- The lease row itself, by primary key; none to a holder that was tombstoned.
SELECT /* claim/read_lease */ id, token, instance_id, batch_id, lane, file_id, upstream, target, attempts, crashes, generation, lines, version, granted_at,
       expires_at, (SELECT b.deadline FROM windrow.batch_lanes b WHERE b.batch_id = l.batch_id AND b.lane = l.lane) AS deadline
  FROM windrow.leases l
 WHERE id = $1 AND NOT EXISTS (
    SELECT 1 FROM windrow.members m WHERE m.instance_id = l.instance_id AND m.tombstoned_at IS NOT NULL)
