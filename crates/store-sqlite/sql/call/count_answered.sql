-- Calls with an answer that were created within the window, by state; uses calls_by_time.
SELECT /* call/count_answered */ state, count(*)
FROM calls INDEXED BY calls_by_time
WHERE created_at >= ?2 AND state >= 2 AND (?1 IS NULL OR owner = ?1)
GROUP BY state
