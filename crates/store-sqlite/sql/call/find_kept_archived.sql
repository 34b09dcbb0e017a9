-- Calls in the archive that had their answer long ago; uses calls_archive_kept.
SELECT /* call/find_kept_archived */ owner, request_id
FROM calls_archive
WHERE state < 4 AND processed_at <= ?1
ORDER BY processed_at
LIMIT ?2
