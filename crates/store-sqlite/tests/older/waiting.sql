-- Targets with lines to claim now or later, and how long until the first of them. Steps from target
-- to target in batch_lanes_ready_idx, which covers it.
WITH RECURSIVE /* claim/waiting */
walk (target, n) AS (
    SELECT min(l.target), 1 FROM batch_lanes AS l WHERE l.ready_at IS NOT NULL
    UNION ALL
    SELECT (
        SELECT min(l.target) FROM batch_lanes AS l
        WHERE l.target > w.target AND l.ready_at IS NOT NULL
    ), w.n + 1
    FROM walk AS w
    WHERE w.target IS NOT NULL AND w.n < ?2
)
SELECT w.target, max(0, (
    SELECT min(l.ready_at) FROM batch_lanes AS l
    WHERE l.target = w.target AND l.ready_at IS NOT NULL
) - ?1)
FROM walk AS w
WHERE w.target IS NOT NULL
ORDER BY w.target
