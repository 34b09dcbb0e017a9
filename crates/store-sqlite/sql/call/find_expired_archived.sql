-- The same in the archive; uses calls_archive_expiring.
SELECT /* call/find_expired_archived */ owner, request_id
FROM calls_archive
WHERE expires_at IS NOT NULL AND state < 4 AND expires_at <= ?1
ORDER BY expires_at
LIMIT ?2
