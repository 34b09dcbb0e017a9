-- Closes a batch.
SELECT /* finalise/close_call */ {fn}.close_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) AS outcome
