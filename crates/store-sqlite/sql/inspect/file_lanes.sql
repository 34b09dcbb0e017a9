-- The lanes of a file, by number.
SELECT /* inspect/file_lanes */ lane, target, lines FROM file_lanes
WHERE file_id = ?1 AND lane >= 0 ORDER BY lane
