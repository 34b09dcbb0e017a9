-- Whether the file of a batch is there.
SELECT /* inspect/row_file */ EXISTS (SELECT 1 FROM files WHERE id = ?1 AND state <> 'dropped')
