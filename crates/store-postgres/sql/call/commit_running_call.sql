-- Shows calls that run for long.
SELECT /* call/commit_running_call */ {fn}.commit_running($1, $2, $3, $4, $5, $6, $7)
