-- Which rows a chunk of a complete file consists of.
SELECT /* inspect/chunk */ c.spans, c.bytes FROM windrow.files f
  JOIN windrow.file_chunks c ON c.file_id = f.id AND c.no = $3
 WHERE f.id = $1 AND ($2::text IS NULL OR f.owner = $2) AND f.state IN ('sealed', 'invalid')
