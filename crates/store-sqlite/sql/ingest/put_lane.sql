-- A lane's lines so far.
INSERT INTO file_lanes /* ingest/put_lane */ (file_id, lane, target, lines)
VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (file_id, lane) DO UPDATE SET lines = excluded.lines
