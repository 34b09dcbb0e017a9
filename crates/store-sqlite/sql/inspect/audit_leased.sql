-- Every outstanding set of a batch, with its holder, and whether its line runs alone there.
SELECT /* inspect/audit_leased */ lane, lines, upstream, instance_id, alone FROM leases WHERE batch_id = ?1 ORDER BY id
