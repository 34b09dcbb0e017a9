-- Messages of a partition behind a place, in the order of the primary key. The caller stops when it has
-- enough, or begins anew behind a stream.
SELECT /* message/read_owned */ m.partition, m.stream_no, m.position, s.queue, s.owner, s.name, m.id,
    m.kind, m.payload, m.headers, m.sent_at, m.not_before, m.attempts, m.started, m.waiting, m.error
FROM messages AS m
CROSS JOIN streams AS s ON s.no = m.stream_no
WHERE m.partition = ?1 AND (m.stream_no, m.position) > (?2, ?3)
ORDER BY m.stream_no, m.position
