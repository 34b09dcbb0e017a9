-- Takes back lost leases.
SELECT /* sweep/lost_call */ leases, returned, failed, finalizing FROM {fn}.return_lost($1, $2, $3)
