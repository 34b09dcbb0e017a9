-- Gives back an instance's leases: the named ones, or all but the named ones.
SELECT /* claim/release_call */ released, lines FROM {fn}.release_leases($1, $2, $3, $4)
