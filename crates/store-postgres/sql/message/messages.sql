-- Everybody's messages that wait, by partition, stream and position.
SELECT /* message/messages */ m.partition, m.stream_no, m.position, s.queue, s.owner, s.name AS stream, m.id, m.kind,
       m.payload, m.headers::text AS headers, m.sent_at, m.not_before, m.attempts, m.started, m.waiting, m.error
  FROM windrow.messages m JOIN windrow.streams s ON s.no = m.stream_no
 WHERE $1::text IS NULL
   AND ($2::smallint IS NULL OR s.queue = $2)
   AND ($3::text IS NULL OR s.name = $3)
   AND (m.partition, m.stream_no, m.position) > ($4, $5, $6)
 ORDER BY m.partition, m.stream_no, m.position LIMIT $7
