-- Nothing of the lease is outstanding. Guarded by its token and version.
DELETE FROM leases /* claim/delete_lease */ WHERE id = ?1 AND token = ?2 AND version = ?3
