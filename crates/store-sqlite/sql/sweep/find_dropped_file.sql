-- A file whose rows are to be reaped; uses files_reap_idx. An output waits
-- until its bytes are gone.
SELECT /* sweep/find_dropped_file */ id
FROM files
WHERE state = 'dropped' AND place IS NULL
ORDER BY id
LIMIT 1
