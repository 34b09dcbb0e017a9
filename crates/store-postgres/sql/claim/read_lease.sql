-- The lease row itself, by primary key.
SELECT /* claim/read_lease */ id, token, instance_id, batch_id, lane, file_id, target, attempts, crashes, generation, lines, version, granted_at,
       expires_at
  FROM windrow.leases WHERE id = $1
