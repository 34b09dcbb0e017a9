-- Results of older generations with one status other than completed; uses results_unwell_idx.
SELECT /* batch/results_unwell */ line, lane, seq, status
FROM results
WHERE batch_id = ?1 AND generation < ?2 AND status <> 0 AND status = ?4
ORDER BY line
LIMIT ?3
