-- Every returned set of a batch.
SELECT /* inspect/audit_returned */ lane, lines FROM returned WHERE batch_id = ?1 ORDER BY id
