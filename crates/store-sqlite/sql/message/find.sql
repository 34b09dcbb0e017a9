-- A message on its way as far as a commit must know it. The stream says whose and which queue.
SELECT /* message/find */ s.queue, s.owner, m.id, m.waiting, m.history
FROM messages AS m
CROSS JOIN streams AS s ON s.no = m.stream_no
WHERE m.partition = ?1 AND m.stream_no = ?2 AND m.position = ?3
