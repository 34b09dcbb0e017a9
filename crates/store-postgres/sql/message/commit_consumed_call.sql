-- Says which consumers are done.
SELECT /* message/commit_consumed_call */ {fn}.commit_consumed($1, $2, $3, $4)
