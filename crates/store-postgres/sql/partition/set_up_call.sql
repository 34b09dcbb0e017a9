-- Fixes how messages are run here.
SELECT /* partition/set_up_call */ {fn}.set_up($1, $2, $3, $4)
