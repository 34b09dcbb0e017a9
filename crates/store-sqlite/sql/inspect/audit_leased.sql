-- Every outstanding set of a batch.
SELECT /* inspect/audit_leased */ lane, lines FROM leases WHERE batch_id = ?1 ORDER BY id
