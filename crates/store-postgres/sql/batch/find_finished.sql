-- Finished lines of a batch from before a generation with these outcomes, in line order, by primary key.
SELECT /* batch/find_finished */ r.line, r.seq, r.lane FROM windrow.results r
 WHERE r.batch_id = $1 AND r.generation < $2 AND r.status = ANY ($3)
 ORDER BY r.line LIMIT $4
