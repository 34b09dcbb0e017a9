-- Guarded: only whoever owns a partition at that epoch gives it back.
UPDATE partitions /* partition/release_partitions */
SET instance = NULL
WHERE no = ?1 AND epoch = ?2 AND instance = ?3
