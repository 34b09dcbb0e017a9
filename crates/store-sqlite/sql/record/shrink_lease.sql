-- What is still outstanding. Guarded by the lease's token and version.
UPDATE leases /* record/shrink_lease */
SET lines = ?4, n = ?5, version = version + 1
WHERE id = ?1 AND token = ?2 AND version = ?3
