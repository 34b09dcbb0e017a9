-- How calls are doing, within a window ($3) and as far as the owner goes, those in the archive included. Of those answered
-- within it the newest million are looked at; uses calls_answered and calls_archive_answered. Rows are counted up to a
-- million; beyond that the server's estimate is given, but to no owner: like the size, it is of everybody's.
WITH /* call/call_stats */ since AS (
    SELECT n.now - $3 * interval '1 ms' AS at, n.now - $4 * interval '1 ms' AS old, n.now
      FROM (SELECT coalesce($1, now()) AS now) n
), open AS (
    SELECT count(*) FILTER (WHERE state = 0) AS pending, count(*) FILTER (WHERE state = 1) AS processing,
           min(created_at) FILTER (WHERE state = 0) AS oldest,
           count(*) FILTER (WHERE state = 0 AND created_at <= old) AS pending_old,
           count(*) FILTER (WHERE state = 1 AND updated_at <= old) AS stuck
      FROM windrow.calls CROSS JOIN since WHERE state < 2 AND ($2::text IS NULL OR owner = $2)
), answered AS (
    SELECT state, created_at, processed_at FROM windrow.calls
     WHERE processed_at >= coalesce($1, now()) - $3 * interval '1 ms' AND ($2::text IS NULL OR owner = $2)
    UNION ALL
    SELECT state, created_at, processed_at FROM windrow.calls_archive
     WHERE processed_at >= coalesce($1, now()) - $3 * interval '1 ms' AND ($2::text IS NULL OR owner = $2)
     ORDER BY processed_at DESC LIMIT 1000000
), figures AS (
    SELECT percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (
               ORDER BY extract(epoch FROM processed_at - created_at)::float8 * 1000) AS ms,
           (avg((state = 3)::int) FILTER (WHERE state < 4))::float8 AS failure_rate,
           count(*) FILTER (WHERE state = 2 AND created_at >= since.at) AS completed,
           count(*) FILTER (WHERE state = 3 AND created_at >= since.at) AS failed,
           count(*) FILTER (WHERE state = 4 AND created_at >= since.at) AS expired
      FROM answered CROSS JOIN since
), rows AS (
    SELECT (SELECT count(*) FROM (SELECT FROM windrow.calls WHERE $2::text IS NULL OR owner = $2 LIMIT 1000000) c) AS calls,
           (SELECT count(*) FROM (SELECT FROM windrow.calls_archive WHERE $2::text IS NULL OR owner = $2 LIMIT 1000000) c) AS archived
)
SELECT pending, processing, completed, failed, expired, pending_old, stuck, ms, failure_rate,
       (extract(epoch FROM since.now - oldest) * 1000)::bigint AS pending_age_ms,
       CASE WHEN calls < 1000000 OR $2::text IS NOT NULL THEN calls ELSE greatest(calls, (
            SELECT reltuples::bigint FROM pg_class WHERE oid = 'windrow.calls'::regclass)) END AS calls,
       CASE WHEN archived < 1000000 OR $2::text IS NOT NULL THEN archived ELSE greatest(archived, (
            SELECT reltuples::bigint FROM pg_class WHERE oid = 'windrow.calls_archive'::regclass)) END AS archived,
       CASE WHEN $2::text IS NULL THEN
            pg_total_relation_size('windrow.calls') + pg_total_relation_size('windrow.calls_archive') END AS bytes
  FROM open, figures, rows, since
