-- Reads what an instance owns.
SELECT /* message/read_owned_call */ * FROM {fn}.read_owned($1, $2, $3, $4, $5, $6, $7, $8, $9)
