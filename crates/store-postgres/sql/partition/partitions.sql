-- Every partition, and whether its owner is a live member.
SELECT /* partition/partitions */ p.no, p.epoch, p.instance, p.is_suspect, p.taken_at,
       m.instance_id IS NOT NULL AS is_owner_live
  FROM windrow.partitions p
  LEFT JOIN windrow.members m ON m.instance_id = p.instance AND m.tombstoned_at IS NULL
 ORDER BY p.no
