-- Leaves messages to be tried again.
SELECT /* message/commit_failed_call */ {fn}.commit_failed($1, $2, $3, $4, $5, $6, $7, $8, $9)
