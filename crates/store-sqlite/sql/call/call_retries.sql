-- How often questions of the window were repeated, by method, the most repeated first.
SELECT /* call/call_retries */ object_type, method, count(*), avg(retry_count)
FROM calls INDEXED BY calls_by_time
WHERE created_at >= ?2 AND (?1 IS NULL OR owner = ?1)
GROUP BY object_type, method
ORDER BY 4 DESC, 3 DESC, object_type, method
LIMIT ?3
