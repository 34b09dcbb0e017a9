-- An owner's dead letters, newest first; uses dead_letters_by_owner.
SELECT /* message/dead_letters_of_owner */ d.partition, d.stream_no, d.position, d.queue, d.owner, d.stream,
    d.message_id, d.kind, d.payload, d.headers, d.sent_at, d.attempts, d.waiting, d.history, d.error,
    d.dead_at, d.id
FROM dead_letters AS d
WHERE d.owner = ?6 AND (d.dead_at, d.id) < (?1, ?2) AND (?3 IS NULL OR d.queue = ?3)
    AND (?4 IS NULL OR d.stream = ?4)
ORDER BY d.dead_at DESC, d.id DESC
LIMIT ?5
