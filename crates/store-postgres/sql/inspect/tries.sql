-- How much history lines have, each by primary key. The classes whose answer is not known are given.
SELECT /* inspect/tries */ u.line, t.tried, t.answered
  FROM (SELECT DISTINCT line FROM unnest($2::bigint[]) line) u
 CROSS JOIN LATERAL (
    SELECT count(*)::int AS tried, count(*) FILTER (WHERE a.class <> ALL ($3))::int AS answered
      FROM windrow.attempts a WHERE a.batch_id = $1 AND a.line = u.line) t
 WHERE t.tried > 0 ORDER BY u.line
