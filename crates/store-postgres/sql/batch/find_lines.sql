-- Finished lines of a batch from before a generation in these ranges, in line order, by primary key.
SELECT /* batch/find_lines */ r.line, r.seq, r.lane
  FROM unnest($3::bigint[], $4::bigint[]) u(lo, hi)
 CROSS JOIN LATERAL (
    SELECT w.line, w.seq, w.lane FROM windrow.results w
     WHERE w.batch_id = $1 AND w.generation < $2 AND w.line BETWEEN u.lo AND u.hi
     ORDER BY w.line LIMIT $5) r
 ORDER BY r.line LIMIT $5
