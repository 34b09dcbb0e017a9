-- Snapshots whose streams have old events that they stand for, or may have; uses snapshots_prunable.
SELECT /* event/find_prunable */ owner, stream, first, version
FROM snapshots
WHERE first <= version AND oldest_at <= ?1
ORDER BY oldest_at
LIMIT ?2
