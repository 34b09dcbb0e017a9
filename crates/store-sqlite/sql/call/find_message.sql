-- The message of a call without an answer, in its object's stream, and what went wrong with it the last time.
SELECT /* call/find_message */ m.partition, m.stream_no, m.position, m.error
FROM streams AS s
JOIN messages AS m ON m.partition = s.partition AND m.stream_no = s.no
WHERE s.owner = ?1 AND s.queue = 2 AND s.name = ?2 AND m.id = ?3
LIMIT 1
