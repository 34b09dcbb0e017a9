-- Says that the heads of these partitions were gone through. Behind partition/fence_call, so they are the instance's.
UPDATE /* partition/clear_suspects */ windrow.partitions p SET is_suspect = false
  FROM (SELECT no FROM windrow.partitions WHERE no = ANY ($1) AND is_suspect ORDER BY no FOR UPDATE) s
 WHERE p.no = s.no
