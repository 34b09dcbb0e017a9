-- Repeats by method, of calls created within the window; the most repeated first.
SELECT /* call/call_retries */ object_type, method, count(*) AS calls, avg(retry_count)::float8 AS retries_mean
  FROM windrow.calls
 WHERE created_at >= coalesce($1, clock_timestamp()) - $3 * interval '1 ms' AND ($2::text IS NULL OR owner = $2)
 GROUP BY object_type, method ORDER BY retries_mean DESC, calls DESC, object_type, method LIMIT $4
