-- The lines themselves, where a transaction pooler forbids COPY's prepared statement.
INSERT /* ingest/insert_lines */ INTO windrow.templates (file_id, lane, seq, line, raw)
SELECT $1, u.lane, u.seq, u.line, u.raw FROM unnest($2::smallint[], $3::bigint[], $4::bigint[], $5::bytea[]) u(lane, seq, line, raw)
