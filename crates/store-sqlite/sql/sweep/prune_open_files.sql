-- Files that nobody writes any more vanish; uses files_open_idx.
UPDATE files /* sweep/prune_open_files */
SET state = 'dropped', touched_at = ?1
WHERE id IN (
    SELECT id FROM files WHERE state = 'open' AND touched_at <= ?2 ORDER BY touched_at LIMIT ?3
)
