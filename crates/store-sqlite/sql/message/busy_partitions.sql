-- Those of the given partitions that have messages.
SELECT /* message/busy_partitions */ e.value
FROM json_each(?1) AS e
WHERE EXISTS (SELECT 1 FROM messages AS m WHERE m.partition = e.value)
