-- The number in the file of one line of a lane, by primary key.
SELECT /* batch/line_at */ line FROM templates WHERE file_id = ?1 AND lane = ?2 AND seq = ?3
