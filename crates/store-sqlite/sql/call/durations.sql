-- How long calls took that had their answer within the window, and how they ended, those in the archive included; the
-- newest first; uses calls_answered and calls_archive_answered.
SELECT /* call/durations */ processed_at - created_at, state, processed_at
FROM calls
WHERE processed_at IS NOT NULL AND processed_at >= ?2 AND (?1 IS NULL OR owner = ?1)
UNION ALL
SELECT processed_at - created_at, state, processed_at
FROM calls_archive
WHERE processed_at >= ?2 AND (?1 IS NULL OR owner = ?1)
ORDER BY processed_at DESC
LIMIT ?3
