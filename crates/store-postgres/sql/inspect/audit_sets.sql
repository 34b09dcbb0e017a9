-- Every stored set of a batch's unfinished lines.
SELECT /* inspect/audit_sets */ lane, false AS leased, lines FROM windrow.returned WHERE batch_id = $1
UNION ALL
SELECT lane, true, lines FROM windrow.leases WHERE batch_id = $1
