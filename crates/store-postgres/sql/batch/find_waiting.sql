-- Returned sets of a batch whose time is still to come ($2, or now), and what is leased of it.
SELECT /* batch/find_waiting */ r.lane, r.id, r.lines, r.n, false AS leased FROM windrow.returned r
 WHERE r.batch_id = $1 AND r.not_before > coalesce($2::timestamptz, clock_timestamp())
UNION ALL
SELECT l.lane, NULL, l.lines, l.n, true FROM windrow.leases l WHERE l.batch_id = $1
