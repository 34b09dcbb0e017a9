-- Writes states of objects.
SELECT /* object/put_states_call */ {fn}.put_states($1, $2, $3, $4, $5)
