-- When the next message of these partitions that must wait may be due; uses messages_waiting.
SELECT /* message/next_due */ min((
    SELECT min(m.not_before) FROM messages AS m
    WHERE m.partition = e.value AND m.not_before > ?2
))
FROM json_each(?1) AS e
