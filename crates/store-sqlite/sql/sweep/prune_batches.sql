-- Closed batches past their retention vanish; uses batches_closed_idx.
UPDATE batches /* sweep/prune_batches */
SET deleted_at = ?1
WHERE id IN (
    SELECT id FROM batches
    WHERE closed_at IS NOT NULL AND deleted_at IS NULL AND closed_at <= ?2
    ORDER BY closed_at
    LIMIT ?3
)
