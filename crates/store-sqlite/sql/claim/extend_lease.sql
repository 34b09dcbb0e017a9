-- Renews a lease that is still the instance's.
UPDATE leases /* claim/extend_lease */ SET expires_at = ?3 WHERE id = ?1 AND instance_id = ?2
