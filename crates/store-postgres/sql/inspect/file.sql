-- A complete file.
SELECT /* inspect/file */ * FROM windrow.files
 WHERE id = $1 AND ($2::text IS NULL OR owner = $2) AND state IN ('sealed', 'invalid')
