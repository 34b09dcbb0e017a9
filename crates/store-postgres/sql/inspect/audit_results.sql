-- Every result of a batch, without its content.
SELECT /* inspect/audit_results */ lane, seq, status FROM windrow.results WHERE batch_id = $1
