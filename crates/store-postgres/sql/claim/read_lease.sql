-- The lease row itself, by primary key.
SELECT /* claim/read_lease */ * FROM windrow.leases WHERE id = $1
