-- Fixes an open file.
SELECT /* ingest/seal_call */ * FROM {fn}.seal_file($1, $2, $3, $4)
