-- Answered calls whose answer was kept as long as was wanted; uses calls_expiring.
SELECT /* call/find_expired */ owner, request_id
FROM calls
WHERE expires_at IS NOT NULL AND expires_at <= ?1 AND state >= 2
ORDER BY expires_at
LIMIT ?2
