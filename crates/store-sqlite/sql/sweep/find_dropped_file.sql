-- A file whose rows are to be reaped; uses files_dropped_idx.
SELECT /* sweep/find_dropped_file */ id FROM files WHERE state = 'dropped' ORDER BY id LIMIT 1
