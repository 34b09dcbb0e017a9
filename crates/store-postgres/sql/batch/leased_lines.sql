-- The numbers in the file of the lines that are leased of a batch, by primary key. There are few leases: all are looked
-- at, and only as many lines as are in flight.
SELECT /* batch/leased_lines */ t.line
  FROM windrow.leases l
 CROSS JOIN LATERAL unnest(string_to_array(l.lines, ',')) p(part)
 CROSS JOIN LATERAL (SELECT split_part(p.part, '-', 1)::bigint AS lo,
                            coalesce(nullif(split_part(p.part, '-', 2), ''), p.part)::bigint AS hi) s
  JOIN windrow.templates t ON t.file_id = l.file_id AND t.lane = l.lane AND t.seq BETWEEN s.lo AND s.hi
 WHERE l.batch_id = $1
