-- A partition, with whether its owner is known and not tombstoned.
SELECT /* partition/find */ p.no, p.epoch, p.instance, p.is_suspect, p.taken_at,
    m.instance_id IS NOT NULL AND m.tombstoned_at IS NULL
FROM partitions AS p
LEFT JOIN members AS m ON m.instance_id = p.instance
WHERE p.no = ?1
