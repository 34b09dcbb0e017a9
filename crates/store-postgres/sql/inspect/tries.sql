-- How much history lines have, each by primary key. Given are the classes whose answer is not known, those that use up no
-- attempt, that of a miss, and that of an answer that was not accepted. Behind a result that was put back so that attempts
-- begin anew, those before it count for nothing.
SELECT /* inspect/tries */ u.line, t.tried, t.answered, t.uncounted, t.missed, t.since_miss, t.unaccepted
  FROM (SELECT DISTINCT line FROM unnest($2::bigint[]) line) u
 CROSS JOIN LATERAL (
    SELECT coalesce(sum(a.times), 0)::int AS tried,
           coalesce(sum(a.times) FILTER (WHERE a.class <> ALL ($3)), 0)::int AS answered,
           coalesce(sum(a.times) FILTER (WHERE a.class = ANY ($4) AND NOT EXISTS (
                SELECT 1 FROM windrow.attempts r WHERE r.batch_id = $1 AND r.line = u.line
                   AND (r.starts_over OR (r.class = 'reprocessed' AND NOT r.put_back))
                   AND (r.generation, r.attempt) > (a.generation, a.attempt))), 0)::int AS uncounted,
           coalesce(sum(a.times) FILTER (WHERE a.class = $5), 0)::int AS missed,
           coalesce(sum(a.times) FILTER (WHERE a.class <> ALL ($4) AND NOT EXISTS (
                SELECT 1 FROM windrow.attempts r WHERE r.batch_id = $1 AND r.line = u.line
                   AND (r.starts_over OR r.class = $5 OR (r.class = 'reprocessed' AND NOT r.put_back))
                   AND (r.generation, r.attempt) >= (a.generation, a.attempt))), 0)::int AS since_miss,
           coalesce(sum(a.times) FILTER (WHERE a.class = $6 AND NOT EXISTS (
                SELECT 1 FROM windrow.attempts r WHERE r.batch_id = $1 AND r.line = u.line
                   AND (r.starts_over OR r.class = $5 OR (r.class = 'reprocessed' AND NOT r.put_back))
                   AND (r.generation, r.attempt) >= (a.generation, a.attempt))), 0)::int AS unaccepted
      FROM windrow.attempts a WHERE a.batch_id = $1 AND a.line = u.line) t
 WHERE t.tried > 0 ORDER BY u.line
