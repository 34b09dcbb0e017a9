-- What is wrong with a file.
SELECT /* inspect/file_errors */ errors FROM windrow.files
 WHERE id = $1 AND ($2::text IS NULL OR owner = $2) AND state IN ('sealed', 'invalid')
