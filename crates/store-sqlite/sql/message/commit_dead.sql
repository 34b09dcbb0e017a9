-- A copy of a message that is given up on. The last try is counted unless it is not to count; one that was begun has been
-- counted.
INSERT INTO dead_letters /* message/commit_dead */
    (id, owner, queue, stream, partition, stream_no, position, message_id, kind, payload, headers,
     sent_at, attempts, waiting, history, error, dead_at)
SELECT ?4, s.owner, s.queue, s.name, m.partition, m.stream_no, m.position, m.id, m.kind, m.payload,
    m.headers, m.sent_at,
    m.attempts + CASE WHEN ?7 THEN m.started IS NULL ELSE -(m.started IS NOT NULL) END, m.waiting, m.history, ?5, ?6
FROM messages AS m
CROSS JOIN streams AS s ON s.no = m.stream_no
WHERE m.partition = ?1 AND m.stream_no = ?2 AND m.position = ?3
