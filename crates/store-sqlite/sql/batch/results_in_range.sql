-- Results of older generations in a range of lines, by line.
SELECT /* batch/results_in_range */ line, lane, seq, status
FROM results
WHERE batch_id = ?1 AND generation < ?2 AND line BETWEEN ?4 AND ?5
ORDER BY line
LIMIT ?3
