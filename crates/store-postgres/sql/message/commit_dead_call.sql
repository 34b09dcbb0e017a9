-- Moves messages to the dead letters.
SELECT /* message/commit_dead_call */ {fn}.commit_dead($1, $2, $3, $4, $5, $6)
