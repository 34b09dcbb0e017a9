-- The oldest acts of a batch go, as far as they are too many; uses acts_at_idx.
DELETE FROM acts /* batch/trim_acts */
WHERE batch_id = ?1 AND id IN (
    SELECT id FROM acts WHERE batch_id = ?1 ORDER BY at DESC, id DESC LIMIT -1 OFFSET ?2
)
