-- Makes a file vanish; its rows are reaped later.
UPDATE files /* ingest/drop_file */ SET state = 'dropped', touched_at = ?2 WHERE id = ?1
