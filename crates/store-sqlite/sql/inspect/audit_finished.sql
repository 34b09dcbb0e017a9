-- Every result of a batch, without its bodies.
SELECT /* inspect/audit_finished */ lane, seq, status FROM results WHERE batch_id = ?1 ORDER BY line
