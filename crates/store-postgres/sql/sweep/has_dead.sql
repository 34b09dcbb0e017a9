-- Whether there is a deleted batch or a dropped file to reap. Locks nothing.
SELECT /* sweep/has_dead */ EXISTS (SELECT 1 FROM windrow.batches WHERE deleted_at IS NOT NULL)
    OR EXISTS (SELECT 1 FROM windrow.files WHERE state = 'dropped' AND place IS NULL) AS found
