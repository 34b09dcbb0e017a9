-- Like find_finished, when completed lines are not wanted. Uses results_not_completed.
SELECT /* batch/find_unsuccessful */ r.line, r.seq, r.lane FROM windrow.results r
 WHERE r.batch_id = $1 AND r.generation < $2 AND r.status = ANY ($3) AND r.status <> 0
 ORDER BY r.line LIMIT $4
