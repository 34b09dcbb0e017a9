-- Calls that were repeated more than $4 times, by object and method, of those created within the window, the archive
-- included, the newest million of each; the most repeated first. Uses calls_by_time and calls_archive_answered.
SELECT /* call/object_retries */ object_type, object_id, method, count(*) AS calls,
       avg(retry_count)::float8 AS retries_mean, max(retry_count) AS retries_max
  FROM ((SELECT object_type, object_id, method, retry_count FROM windrow.calls
          WHERE created_at >= coalesce($1, now()) - $3 * interval '1 ms' AND ($2::text IS NULL OR owner = $2)
          ORDER BY created_at DESC LIMIT 1000000)
        UNION ALL
        (SELECT object_type, object_id, method, retry_count FROM windrow.calls_archive
          WHERE created_at >= coalesce($1, now()) - $3 * interval '1 ms'
            AND processed_at >= coalesce($1, now()) - $3 * interval '1 ms' AND ($2::text IS NULL OR owner = $2)
          ORDER BY processed_at DESC LIMIT 1000000)) c
 WHERE retry_count > $4
 GROUP BY object_type, object_id, method
 ORDER BY retries_max DESC, retries_mean DESC, object_type, object_id, method LIMIT $5
