-- Targets of one batch with lines to claim now or later, and how long until the first of them.
SELECT /* claim/waiting_of_batch */ target, max(0, min(ready_at) - ?1)
FROM batch_lanes
WHERE batch_id = ?3 AND ready_at IS NOT NULL
GROUP BY target
ORDER BY target
LIMIT ?2
