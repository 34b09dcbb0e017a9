-- Whether find_unclosed would find or flip something: its tests, without its locks.
SELECT /* finalise/has_unclosed */ EXISTS (
    SELECT 1 FROM windrow.batches b
     WHERE b.state IN ('finalizing_completed', 'finalizing_cancelled', 'finalizing_expired') AND b.deleted_at IS NULL
       AND (b.final_until IS NULL OR b.final_until <= (SELECT coalesce($1, clock_timestamp()))
            OR EXISTS (SELECT 1 FROM windrow.members m WHERE m.instance_id = b.final_by AND m.tombstoned_at IS NOT NULL)))
OR EXISTS (
    SELECT 1 FROM windrow.batches b
     WHERE b.state IN ('in_progress', 'paused', 'cancelling', 'expiring') AND b.deleted_at IS NULL
       AND NOT EXISTS (SELECT 1 FROM windrow.batch_lanes l WHERE l.batch_id = b.id AND l.phase <> 'done')) AS found
