-- Those of the named leases that must not go on: the lane is not open or was moved to another upstream, the batch's
-- window has ended, or the lease is gone. By primary keys.
SELECT /* claim/stopped_leases */ h.id
  FROM unnest($2::uuid[]) h(id)
 WHERE NOT EXISTS (
    SELECT 1 FROM windrow.leases s JOIN windrow.batch_lanes l ON l.batch_id = s.batch_id AND l.lane = s.lane
     WHERE s.id = h.id AND l.phase = 'open' AND l.upstream = s.upstream AND (l.deadline IS NULL OR l.deadline > coalesce($1, clock_timestamp())))
 ORDER BY h.id
