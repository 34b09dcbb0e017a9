-- Asks several calls.
SELECT /* call/submit_calls_call */ o_partition, o_stream, o_position
  FROM {fn}.submit_calls($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
