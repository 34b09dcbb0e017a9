-- How calls are doing, within a window ($3) and as far as the owner goes. Rows are counted up to a million; beyond that
-- the server's estimate is given.
WITH /* call/call_stats */ now AS (
    SELECT coalesce($1, clock_timestamp()) AS at
), since AS (
    SELECT at - $3 * interval '1 ms' AS at, at - $4 * interval '1 ms' AS old, at AS now FROM now
), open AS (
    SELECT count(*) FILTER (WHERE state = 0) AS pending, count(*) FILTER (WHERE state = 1) AS processing,
           min(created_at) FILTER (WHERE state = 0) AS oldest,
           count(*) FILTER (WHERE state = 0 AND created_at <= old) AS pending_old,
           count(*) FILTER (WHERE state = 1 AND updated_at <= old) AS stuck
      FROM windrow.calls CROSS JOIN since WHERE state < 2 AND ($2::text IS NULL OR owner = $2)
), made AS (
    SELECT count(*) FILTER (WHERE state = 2) AS completed, count(*) FILTER (WHERE state = 3) AS failed
      FROM windrow.calls CROSS JOIN since WHERE created_at >= since.at AND ($2::text IS NULL OR owner = $2)
), answered AS (
    SELECT percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (
               ORDER BY extract(epoch FROM processed_at - created_at)::float8 * 1000) AS ms,
           avg((state = 3)::int)::float8 AS failure_rate
      FROM windrow.calls CROSS JOIN since WHERE processed_at >= since.at AND ($2::text IS NULL OR owner = $2)
), rows AS (
    SELECT (SELECT count(*) FROM (SELECT FROM windrow.calls WHERE $2::text IS NULL OR owner = $2 LIMIT 1000000) c) AS calls,
           (SELECT count(*) FROM (SELECT FROM windrow.calls_archive WHERE $2::text IS NULL OR owner = $2 LIMIT 1000000) c) AS archived
)
SELECT pending, processing, completed, failed, pending_old, stuck, ms, failure_rate,
       (extract(epoch FROM since.now - oldest) * 1000)::bigint AS pending_age_ms,
       CASE WHEN calls < 1000000 THEN calls ELSE greatest(calls, (
            SELECT reltuples::bigint FROM pg_class WHERE oid = 'windrow.calls'::regclass)) END AS calls,
       CASE WHEN archived < 1000000 THEN archived ELSE greatest(archived, (
            SELECT reltuples::bigint FROM pg_class WHERE oid = 'windrow.calls_archive'::regclass)) END AS archived,
       pg_total_relation_size('windrow.calls') + pg_total_relation_size('windrow.calls_archive') AS bytes
  FROM open, made, answered, rows, since
