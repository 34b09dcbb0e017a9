-- A partition changes hands: its epoch goes up, and it is suspect when its last owner still had it.
UPDATE partitions /* partition/take_partitions */
SET epoch = epoch + 1, is_suspect = is_suspect OR instance IS NOT NULL, instance = ?2, taken_at = ?3
WHERE no = ?1
RETURNING epoch, is_suspect
