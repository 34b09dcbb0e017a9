-- Leases a tranche under the caller's lease id; finds the lease there when it is a repeat.
SELECT /* claim/claim_call */ leases_from FROM {fn}.claim($1, $2, $3, $4, $5, $6, $7, $8, $9)
