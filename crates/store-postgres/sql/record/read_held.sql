-- What is outstanding of an instance's leases, as the rows say.
SELECT /* record/read_held */ id, token, version, lines FROM windrow.leases WHERE id = ANY ($1) AND instance_id = $2
