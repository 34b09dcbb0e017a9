-- What is wrong with a complete file; NULL for nothing.
SELECT /* inspect/file_errors */ errors FROM files WHERE id = ?1
