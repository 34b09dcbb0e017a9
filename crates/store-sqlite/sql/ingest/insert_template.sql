-- One piece of a file.
INSERT INTO templates /* ingest/insert_template */ (file_id, lane, seq, line, raw)
VALUES (?1, ?2, ?3, ?4, ?5)
