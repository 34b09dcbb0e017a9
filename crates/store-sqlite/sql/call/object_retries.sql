-- Calls that were repeated more than ?3 times, by object and method, of those of the window, the archive included, the
-- most repeated first; uses calls_by_time and calls_archive_answered.
SELECT /* call/object_retries */ object_type, object_id, method, count(*), avg(retry_count), max(retry_count)
FROM (
    SELECT object_type, object_id, method, retry_count
    FROM calls INDEXED BY calls_by_time
    WHERE created_at >= ?2 AND (?1 IS NULL OR owner = ?1)
    UNION ALL
    SELECT object_type, object_id, method, retry_count
    FROM calls_archive INDEXED BY calls_archive_answered
    WHERE processed_at >= ?2 AND created_at >= ?2 AND (?1 IS NULL OR owner = ?1)
) AS asked
WHERE retry_count > ?3
GROUP BY object_type, object_id, method
ORDER BY 6 DESC, 5 DESC, object_type, object_id, method
LIMIT ?4
