-- How much history lines have, each by primary key. The classes whose answer is not known are given, those that
-- use up no attempt, and that of a result that was put back: attempts before one count for nothing.
SELECT /* inspect/tries */ u.line, t.tried, t.answered, t.uncounted
  FROM (SELECT DISTINCT line FROM unnest($2::bigint[]) line) u
 CROSS JOIN LATERAL (
    SELECT coalesce(sum(a.times), 0)::int AS tried,
           coalesce(sum(a.times) FILTER (WHERE a.class <> ALL ($3)), 0)::int AS answered,
           coalesce(sum(a.times) FILTER (WHERE a.class = ANY ($4) AND NOT EXISTS (
                SELECT 1 FROM windrow.attempts r WHERE r.batch_id = $1 AND r.line = u.line AND r.class = $5
                   AND (r.generation, r.attempt) > (a.generation, a.attempt))), 0)::int AS uncounted
      FROM windrow.attempts a WHERE a.batch_id = $1 AND a.line = u.line) t
 WHERE t.tried > 0 ORDER BY u.line
