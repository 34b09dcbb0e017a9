-- The first rows of a batch with a result, from a line on or ($4) back, by primary key.
SELECT /* inspect/row_lines */ k.line, k.lane, k.seq
  FROM ((SELECT r.line, r.lane, r.seq FROM windrow.results r
         WHERE NOT $4::boolean AND r.batch_id = $1 AND r.line >= $2 AND ($3::smallint[] IS NULL OR r.status = ANY ($3))
         ORDER BY r.line LIMIT $5)
        UNION ALL
        (SELECT r.line, r.lane, r.seq FROM windrow.results r
         WHERE $4 AND r.batch_id = $1 AND r.line <= $2 AND ($3::smallint[] IS NULL OR r.status = ANY ($3))
         ORDER BY r.line DESC LIMIT $5)) k
