-- Finished lines of a batch from before a generation with these outcomes, from a line on, in line order, by primary key. With a time, how often
-- it was tried at all, and how often it was put back since then, each by primary key.
SELECT /* batch/find_finished */ r.line, r.seq, r.lane, r.status, r.attempts, r.class, h.tried, h.put_back FROM (
    SELECT * FROM windrow.results w
     WHERE w.batch_id = $1 AND w.generation < $2 AND w.status = ANY ($3) AND w.line >= $5
     ORDER BY w.line LIMIT $4) r
 CROSS JOIN LATERAL (
    SELECT coalesce(sum(a.times) FILTER (WHERE a.class <> 'throttled'), 0)::int AS tried,
           (count(*) FILTER (WHERE (a.put_back OR a.class = 'reprocessed') AND a.created_at > $6))::int AS put_back
      FROM windrow.attempts a
     WHERE $6::timestamptz IS NOT NULL AND a.batch_id = $1 AND a.line = r.line) h
 ORDER BY r.line
