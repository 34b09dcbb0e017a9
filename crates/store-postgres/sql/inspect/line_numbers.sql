-- The numbers of lines in their file, by primary key. LIMIT keeps each look one of the index, whatever the estimates say.
SELECT /* inspect/line_numbers */ u.lane, u.seq, t.line
  FROM unnest($2::smallint[], $3::bigint[]) u(lane, seq)
 CROSS JOIN LATERAL (SELECT w.line FROM windrow.templates w
                      WHERE w.file_id = $1 AND w.lane = u.lane AND w.seq = u.seq LIMIT 1) t
