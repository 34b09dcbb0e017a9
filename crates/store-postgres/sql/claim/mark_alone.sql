-- Marks a lease of one line that is still the instance's, unless another of its leases is. Locks that lease alone. The
-- instance itself is the only one that marks its leases, one after the other.
UPDATE windrow.leases AS l /* claim/mark_alone */ SET alone = true
 WHERE l.id = $1 AND l.instance_id = $2 AND l.token = $3 AND l.n = 1
   AND NOT EXISTS (SELECT 1 FROM windrow.leases o WHERE o.instance_id = $2 AND o.alone AND o.id <> $1)
   AND NOT EXISTS (SELECT 1 FROM windrow.members m WHERE m.instance_id = $2 AND m.tombstoned_at IS NOT NULL)
RETURNING l.id
