-- The lines themselves, in binary.
COPY /* ingest/copy_lines */ windrow.templates (file_id, lane, seq, line, raw) FROM STDIN (FORMAT binary)
