-- Locks calls before a commit changes them.
SELECT /* call/lock_calls_call */ {fn}.lock_calls($1, $2, $3, $4, $5)
