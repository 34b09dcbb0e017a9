-- Like row_lines, when completed rows are not wanted. Uses results_not_completed.
SELECT /* inspect/row_lines_unsuccessful */ k.line, k.lane, k.seq
  FROM ((SELECT r.line, r.lane, r.seq FROM windrow.results r
         WHERE NOT $4::boolean AND r.batch_id = $1 AND r.line >= $2 AND r.status <> 0 AND r.status = ANY ($3::smallint[])
         ORDER BY r.line LIMIT $5)
        UNION ALL
        (SELECT r.line, r.lane, r.seq FROM windrow.results r
         WHERE $4 AND r.batch_id = $1 AND r.line <= $2 AND r.status <> 0 AND r.status = ANY ($3::smallint[])
         ORDER BY r.line DESC LIMIT $5)) k
