-- The first rows of a batch that have no result and an earlier one, from a line on or ($4) back, by primary key. The
-- newest earlier result counts.
SELECT /* inspect/row_lines_before */ k.line, k.lane, k.seq
  FROM ((SELECT r.line, r.lane, r.seq FROM windrow.results_before r
         WHERE NOT $4::boolean AND r.batch_id = $1 AND r.line >= $2 AND ($3::smallint[] IS NULL OR r.status = ANY ($3))
           AND NOT EXISTS (SELECT 1 FROM windrow.results c WHERE c.batch_id = $1 AND c.line = r.line)
           AND NOT EXISTS (SELECT 1 FROM windrow.results_before n WHERE n.batch_id = $1
                              AND n.line = r.line AND n.generation > r.generation)
         ORDER BY r.line LIMIT $5)
        UNION ALL
        (SELECT r.line, r.lane, r.seq FROM windrow.results_before r
         WHERE $4 AND r.batch_id = $1 AND r.line <= $2 AND ($3::smallint[] IS NULL OR r.status = ANY ($3))
           AND NOT EXISTS (SELECT 1 FROM windrow.results c WHERE c.batch_id = $1 AND c.line = r.line)
           AND NOT EXISTS (SELECT 1 FROM windrow.results_before n WHERE n.batch_id = $1
                              AND n.line = r.line AND n.generation > r.generation)
         ORDER BY r.line DESC LIMIT $5)) k
