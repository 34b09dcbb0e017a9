-- Dropped outputs whose bytes are still in the storage. Locks nothing; uses files_to_forget.
SELECT /* sweep/find_dropped_outputs */ id, place FROM windrow.files
 WHERE state = 'dropped' AND place IS NOT NULL ORDER BY id LIMIT $1
