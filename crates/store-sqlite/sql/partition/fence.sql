-- Those of the given [partition, epoch] pairs that are not the instance's.
SELECT /* partition/fence */ e.value ->> 0
FROM json_each(?1) AS e
WHERE NOT EXISTS (
    SELECT 1 FROM partitions AS p
    WHERE p.no = e.value ->> 0 AND p.epoch = e.value ->> 1 AND p.instance = ?2
)
