-- Batches that wait to be closed and that nobody is closing, or somebody who is tombstoned; uses
-- batches_finalizing_idx.
SELECT /* finalise/find_unclosed */ id
FROM batches
WHERE finalizing_at IS NOT NULL AND closed_at IS NULL AND deleted_at IS NULL
    AND (final_until IS NULL OR final_until <= ?1 OR EXISTS (
        SELECT 1 FROM members AS m WHERE m.instance_id = final_by AND m.tombstoned_at IS NOT NULL
    ))
ORDER BY finalizing_at, id
LIMIT ?2
