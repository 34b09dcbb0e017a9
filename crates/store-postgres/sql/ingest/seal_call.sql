-- Fixes an open file.
SELECT /* ingest/seal_call */ id, owner, name, purpose, state, lines, bytes, chunks, created_at, sealed_at, expires_at,
       place, batch_id, endpoint
  FROM {fn}.seal_file($1, $2, $3, $4, $5)
