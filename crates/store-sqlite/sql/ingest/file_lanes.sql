-- A file's lanes with their lines so far, by number; -1 is no lane.
SELECT /* ingest/file_lanes */ lane, target, lines FROM file_lanes WHERE file_id = ?1 ORDER BY lane
