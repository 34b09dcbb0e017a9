-- Marks a lease of one line that is still the instance's, unless another of its leases is. There are few leases: they
-- are looked through.
UPDATE leases AS l /* claim/mark_alone */ SET alone = 1
WHERE l.id = ?1 AND l.instance_id = ?2 AND l.token = ?3 AND l.n = 1
    AND NOT EXISTS (SELECT 1 FROM leases WHERE instance_id = ?2 AND alone = 1 AND id <> ?1)
    AND NOT EXISTS (SELECT 1 FROM members AS m WHERE m.instance_id = ?2 AND m.tombstoned_at IS NOT NULL)
