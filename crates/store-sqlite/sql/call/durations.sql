-- How long calls took that had their answer within the window, and whether they failed; the newest
-- first; uses calls_answered.
SELECT /* call/durations */ processed_at - created_at, state = 3
FROM calls
WHERE processed_at IS NOT NULL AND processed_at >= ?2 AND (?1 IS NULL OR owner = ?1)
ORDER BY processed_at DESC
LIMIT ?3
