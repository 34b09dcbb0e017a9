-- Complete files that have expired and that no batch needs vanish; uses files_expiring_idx.
UPDATE files /* sweep/prune_expired_files */
SET state = 'dropped', touched_at = ?1
WHERE id IN (
    SELECT f.id FROM files AS f
    WHERE f.expires_at IS NOT NULL AND f.sealed_at IS NOT NULL AND f.expires_at <= ?1
        AND f.state IN ('sealed', 'invalid')
        AND NOT EXISTS (
            SELECT 1 FROM batches AS b
            WHERE b.file_id = f.id AND b.closed_at IS NULL AND b.deleted_at IS NULL
        )
    ORDER BY f.expires_at
    LIMIT ?2
)
