-- An owner's messages behind a place; walks streams_by_owner, which has the order of the page.
SELECT /* message/messages_of_owner */ m.partition, m.stream_no, m.position, s.queue, s.owner, s.name,
    m.id, m.kind, m.payload, m.headers, m.sent_at, m.not_before, m.attempts, m.started, m.waiting,
    m.error
FROM streams AS s INDEXED BY streams_by_owner
CROSS JOIN messages AS m ON m.partition = s.partition AND m.stream_no = s.no
WHERE s.owner = ?6 AND (s.partition, s.no) >= (?1, ?2) AND (?4 IS NULL OR s.queue = ?4)
    AND (m.partition, m.stream_no, m.position) > (?1, ?2, ?3)
ORDER BY s.partition, s.no, m.position
LIMIT ?5
