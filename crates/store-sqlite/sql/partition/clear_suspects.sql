-- Guarded: only whoever owns a partition at that epoch says that its heads were gone through.
UPDATE partitions /* partition/clear_suspects */
SET is_suspect = 0
WHERE no = ?1 AND epoch = ?2 AND instance = ?3
