-- Sets or removes a target's limit in flight.
SELECT /* claim/limit_call */ {fn}.set_limit($1, $2)
