-- Every stored set of a batch's unfinished lines; of a lease also the upstream that it was claimed for, its holder, and
-- whether its line runs alone there.
SELECT /* inspect/audit_sets */ lane, false AS leased, lines, NULL AS upstream, NULL::uuid AS instance_id, false AS alone
  FROM windrow.returned WHERE batch_id = $1
UNION ALL
SELECT lane, true, lines, upstream, instance_id, alone FROM windrow.leases WHERE batch_id = $1
