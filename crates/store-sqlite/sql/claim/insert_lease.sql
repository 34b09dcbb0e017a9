-- Grants a lease.
INSERT INTO leases /* claim/insert_lease */
    (id, token, instance_id, batch_id, lane, file_id, target, owner, attempts, crashes, generation,
     version, granted, n, granted_at, expires_at, lines, upstream)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 1, ?12, ?12, ?13, ?14, ?15, ?16)
