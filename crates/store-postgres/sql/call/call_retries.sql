-- Repeats by method, of calls created within the window, those in the archive included, the newest million of each; the
-- most repeated first. What was created within the window was also answered within it: uses calls_archive_answered.
SELECT /* call/call_retries */ object_type, method, count(*) AS calls, avg(retry_count)::float8 AS retries_mean
  FROM ((SELECT object_type, method, retry_count FROM windrow.calls
          WHERE created_at >= coalesce($1, now()) - $3 * interval '1 ms' AND ($2::text IS NULL OR owner = $2)
          ORDER BY created_at DESC LIMIT 1000000)
        UNION ALL
        (SELECT object_type, method, retry_count FROM windrow.calls_archive
          WHERE created_at >= coalesce($1, now()) - $3 * interval '1 ms'
            AND processed_at >= coalesce($1, now()) - $3 * interval '1 ms' AND ($2::text IS NULL OR owner = $2)
          ORDER BY processed_at DESC LIMIT 1000000)) c
 GROUP BY object_type, method ORDER BY retries_mean DESC, calls DESC, object_type, method LIMIT $4
