-- The exact bytes of a line, by primary key.
SELECT /* inspect/row_bytes */ raw FROM templates WHERE file_id = ?1 AND lane = ?2 AND seq = ?3
