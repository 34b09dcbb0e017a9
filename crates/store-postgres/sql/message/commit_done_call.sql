-- Ends messages.
SELECT /* message/commit_done_call */ {fn}.commit_done($1, $2, $3)
