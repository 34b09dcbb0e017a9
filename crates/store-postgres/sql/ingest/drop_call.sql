-- Makes a file vanish.
SELECT /* ingest/drop_call */ {fn}.drop_file($1, $2) AS dropped
