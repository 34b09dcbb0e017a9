-- Dropped outputs whose bytes are still in the storage; uses files_forget_idx.
SELECT /* sweep/find_dropped_outputs */ id, place
FROM files
WHERE state = 'dropped' AND place IS NOT NULL
ORDER BY id
LIMIT ?1
