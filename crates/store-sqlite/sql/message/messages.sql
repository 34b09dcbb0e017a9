-- Everybody's messages behind a place, in the order of the primary key.
SELECT /* message/messages */ m.partition, m.stream_no, m.position, s.queue, s.owner, s.name,
    m.id, m.kind, m.payload, m.headers, m.sent_at, m.not_before, m.attempts, m.started, m.waiting,
    m.error
FROM messages AS m
CROSS JOIN streams AS s ON s.no = m.stream_no
WHERE (m.partition, m.stream_no, m.position) > (?1, ?2, ?3) AND (?4 IS NULL OR s.queue = ?4)
ORDER BY m.partition, m.stream_no, m.position
LIMIT ?5
