-- The lane to claim from next: the owner with the least in flight, then priority, deadline, batch,
-- lane. Steps from owner to owner in batch_lanes_ready_idx, so that it costs O(owners), not O(lanes).
WITH RECURSIVE /* claim/pick_lane */
flight (owner, n) AS MATERIALIZED (SELECT owner, sum(n) FROM leases GROUP BY owner),
wanted (target) AS (SELECT value FROM json_each(?1)),
claimants (target, owner) AS (
    SELECT w.target, (
        SELECT min(l.owner) FROM batch_lanes AS l
        WHERE l.target = w.target AND l.ready_at IS NOT NULL
    )
    FROM wanted AS w
    UNION ALL
    SELECT c.target, (
        SELECT min(l.owner) FROM batch_lanes AS l
        WHERE l.target = c.target AND l.owner > c.owner AND l.ready_at IS NOT NULL
    )
    FROM claimants AS c
    WHERE c.owner IS NOT NULL
)
SELECT l.batch_id, l.lane, l.target, l.owner, l.file_id, l.total, l.cursor,
    (SELECT b.generation FROM batches AS b WHERE b.id = l.batch_id)
FROM claimants AS c
CROSS JOIN batch_lanes AS l ON (l.batch_id, l.lane) = (
    SELECT x.batch_id, x.lane
    FROM batch_lanes AS x
    WHERE x.target = c.target AND x.owner = c.owner
        AND x.ready_at IS NOT NULL AND x.ready_at <= ?2
    ORDER BY x.priority DESC, x.due, x.batch_id, x.lane
    LIMIT 1
)
LEFT JOIN flight AS f ON f.owner = c.owner
WHERE c.owner IS NOT NULL
ORDER BY ifnull(f.n, 0), l.priority DESC, l.due, l.batch_id, l.lane
LIMIT 1
