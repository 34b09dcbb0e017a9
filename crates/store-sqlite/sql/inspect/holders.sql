-- Who holds lines of a batch, until when, and when each was last heard of. There are few leases: all
-- are looked at.
SELECT /* inspect/holders */ leases.instance_id, m.host, m.pid, sum(leases.n), max(leases.expires_at), m.heartbeat_at
FROM leases
LEFT JOIN members AS m ON m.instance_id = leases.instance_id
WHERE leases.batch_id = ?1
GROUP BY leases.instance_id
ORDER BY leases.instance_id
