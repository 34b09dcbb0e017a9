-- What went wrong the last time with each of these lines, by primary key.
SELECT /* inspect/last_errors */ u.batch_id, u.line, a.error_code, a.error
  FROM (SELECT DISTINCT * FROM unnest($1::uuid[], $2::bigint[]) p(batch_id, line)) u
 CROSS JOIN LATERAL (
    SELECT error_code, error FROM windrow.attempts x
     WHERE x.batch_id = u.batch_id AND x.line = u.line AND x.class <> 'reprocessed'
     ORDER BY x.generation DESC, x.attempt DESC LIMIT 1) a
