-- How often questions of the window were repeated, by method, the most repeated first, those in the archive included;
-- uses calls_by_time and calls_archive_answered.
SELECT /* call/call_retries */ object_type, method, count(*), avg(retry_count)
FROM (
    SELECT object_type, method, retry_count
    FROM calls INDEXED BY calls_by_time
    WHERE created_at >= ?2 AND (?1 IS NULL OR owner = ?1)
    UNION ALL
    SELECT object_type, method, retry_count
    FROM calls_archive INDEXED BY calls_archive_answered
    WHERE processed_at >= ?2 AND created_at >= ?2 AND (?1 IS NULL OR owner = ?1)
) AS asked
GROUP BY object_type, method
ORDER BY 4 DESC, 3 DESC, object_type, method
LIMIT ?3
