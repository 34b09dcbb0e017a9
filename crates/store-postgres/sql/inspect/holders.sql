-- Who holds lines of a batch, until when, and when each was last heard of. There are few leases: all are looked at.
SELECT /* inspect/holders */ l.instance_id, m.host, m.pid, sum(l.n)::bigint AS lines, max(l.expires_at) AS expires_at,
       m.heartbeat_at, coalesce($2, clock_timestamp()) AS now
  FROM windrow.leases l
  LEFT JOIN windrow.members m ON m.instance_id = l.instance_id
 WHERE l.batch_id = $1
 GROUP BY l.instance_id, m.host, m.pid, m.heartbeat_at ORDER BY l.instance_id
