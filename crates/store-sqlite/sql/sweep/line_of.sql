-- A line's number in its file.
SELECT /* sweep/line_of */ line FROM templates WHERE file_id = ?1 AND lane = ?2 AND seq = ?3
