-- Calls that wait though their time is over, the oldest first; uses calls_expiring: a call that is answered late gets a later
-- time, so few of those passed have an answer.
SELECT /* call/find_overdue */ owner, request_id, object_type || '/' || object_id
FROM calls
WHERE expires_at IS NOT NULL AND expires_at <= ?1 AND state = 0
ORDER BY expires_at
LIMIT ?2
