-- Accounts for the chunk that was just copied.
SELECT /* ingest/finish_call */ {fn}.finish_chunk($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
