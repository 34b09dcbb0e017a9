-- Calls with an answer that were created within the window, by state, those in the archive included: what was created
-- within it was also answered within it; uses calls_by_time and calls_archive_answered.
SELECT /* call/count_answered */ state, count(*)
FROM (
    SELECT state
    FROM calls INDEXED BY calls_by_time
    WHERE created_at >= ?2 AND state >= 2 AND (?1 IS NULL OR owner = ?1)
    UNION ALL
    SELECT state
    FROM calls_archive INDEXED BY calls_archive_answered
    WHERE processed_at >= ?2 AND created_at >= ?2 AND (?1 IS NULL OR owner = ?1)
) AS answered
GROUP BY state
