-- The rows of a chunk in file order: spans of lanes by primary key, sorted by line. OFFSET 0 keeps each span a range
-- of the index, whatever the estimates say.
SELECT /* inspect/chunk_rows */ t.raw
  FROM unnest($2::smallint[], $3::bigint[], $4::bigint[]) u(lane, first, n)
 CROSS JOIN LATERAL (
    SELECT w.line, w.seq, w.raw FROM windrow.templates w
     WHERE w.file_id = $1 AND w.lane = u.lane AND w.seq BETWEEN u.first AND u.first + u.n - 1 OFFSET 0) t
 ORDER BY t.line, t.seq
