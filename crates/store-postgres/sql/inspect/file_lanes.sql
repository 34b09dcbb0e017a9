-- The lanes of a complete file, by number; one row without a lane for a file that has none.
SELECT /* inspect/file_lanes */ l.lane, l.target, l.lines FROM windrow.files f
  LEFT JOIN windrow.file_lanes l ON l.file_id = f.id AND l.lane >= 0
 WHERE f.id = $1 AND ($2::text IS NULL OR f.owner = $2) AND f.state IN ('sealed', 'invalid')
 ORDER BY l.lane
