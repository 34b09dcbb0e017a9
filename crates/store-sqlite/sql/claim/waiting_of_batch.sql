-- Routes of one batch with lines to claim now or later, and how long until the first of them.
SELECT /* claim/waiting_of_batch */ upstream, target, max(0, min(claimable_at) - ?1)
FROM batch_lanes
WHERE batch_id = ?4 AND claimable_at IS NOT NULL AND due > ?1
    AND upstream IN (SELECT value FROM json_each(?3))
GROUP BY upstream, target
ORDER BY upstream, target
LIMIT ?2
