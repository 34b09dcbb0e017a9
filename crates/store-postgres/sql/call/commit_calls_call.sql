-- Answers calls.
SELECT /* call/commit_calls_call */ {fn}.commit_calls($1, $2, $3, $4, $5, $6, $7, $8, $9)
