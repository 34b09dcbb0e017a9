-- How many bytes each chunk of a complete file has, in order; one row without bytes for a file that has none.
SELECT /* inspect/chunk_sizes */ c.bytes FROM windrow.files f
  LEFT JOIN windrow.file_chunks c ON c.file_id = f.id
 WHERE f.id = $1 AND ($2::text IS NULL OR f.owner = $2) AND f.state IN ('sealed', 'invalid')
 ORDER BY c.no
