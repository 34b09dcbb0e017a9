-- Says which pieces belong together.
INSERT INTO file_chunks /* ingest/insert_chunk */ (file_id, no, bytes, spans)
VALUES (?1, ?2, ?3, ?4)
