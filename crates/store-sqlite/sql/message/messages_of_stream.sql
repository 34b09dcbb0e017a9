-- A stream's messages behind a position.
SELECT /* message/messages_of_stream */ m.partition, m.stream_no, m.position, s.queue, s.owner, s.name,
    m.id, m.kind, m.payload, m.headers, m.sent_at, m.not_before, m.attempts, m.started, m.waiting,
    m.error
FROM messages AS m
CROSS JOIN streams AS s ON s.no = m.stream_no
WHERE m.partition = ?1 AND m.stream_no = ?2 AND m.position > ?3
ORDER BY m.position
LIMIT ?4
