-- Completed results of older generations, by line.
SELECT /* batch/results_completed */ line, lane, seq, status
FROM results
WHERE batch_id = ?1 AND generation < ?2 AND status = 0
ORDER BY line
LIMIT ?3
