-- Calls that had their answer long ago; uses calls_answered.
SELECT /* call/find_answered */ owner, request_id
FROM calls
WHERE processed_at IS NOT NULL AND processed_at <= ?1
ORDER BY processed_at
LIMIT ?2
