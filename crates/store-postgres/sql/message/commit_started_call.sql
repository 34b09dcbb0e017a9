-- Says that messages begin.
SELECT /* message/commit_started_call */ {fn}.commit_started($1, $2, $3, $4, $5, $6)
