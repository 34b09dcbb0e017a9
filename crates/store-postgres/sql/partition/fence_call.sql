-- Proves ownership until the transaction ends.
SELECT /* partition/fence_call */ {fn}.fence($1, $2, $3)
