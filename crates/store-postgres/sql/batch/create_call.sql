-- Creates a batch, or finds the one created before.
SELECT /* batch/create_call */
       {fn}.create_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17) AS id
