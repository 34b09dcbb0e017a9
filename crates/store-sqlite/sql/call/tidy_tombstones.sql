-- Tombstones that were kept long enough; uses calls_archive_tombstones.
DELETE FROM calls_archive /* call/tidy_tombstones */
WHERE (owner, request_id) IN (
    SELECT owner, request_id
    FROM calls_archive
    WHERE state = 4 AND updated_at <= ?1
    ORDER BY updated_at
    LIMIT ?2
)
