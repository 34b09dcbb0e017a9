-- Routes of some upstreams with lines to claim now or later, and how long until the first of them; not
-- those whose batches are all past their window. Steps from target to target of each upstream in
-- batch_lanes_ready_idx, which covers it. Of too many, each upstream's first targets come before any
-- upstream's later ones.
WITH RECURSIVE /* claim/waiting */
walk (upstream, target, n) AS (
    SELECT json_each.value, (
        SELECT min(l.target) FROM batch_lanes AS l
        WHERE l.upstream = json_each.value AND l.claimable_at IS NOT NULL
    ), 1
    FROM json_each(?3)
    UNION ALL
    SELECT w.upstream, (
        SELECT min(l.target) FROM batch_lanes AS l
        WHERE l.upstream = w.upstream AND l.target > w.target AND l.claimable_at IS NOT NULL
    ), w.n + 1
    FROM walk AS w
    WHERE w.target IS NOT NULL AND w.n < ?2
)
SELECT upstream, target, max(0, claimable_at - ?1)
FROM (
    SELECT w.upstream, w.target, (
        SELECT min(l.claimable_at) FROM batch_lanes AS l
        WHERE l.upstream = w.upstream AND l.target = w.target AND l.claimable_at IS NOT NULL
            AND l.due > ?1
    ) AS claimable_at
    FROM walk AS w
    WHERE w.target IS NOT NULL
)
WHERE claimable_at IS NOT NULL
LIMIT ?2
