-- An owner's messages that wait, by partition, stream and position; walks streams_by_owner, which has the order of the page.
SELECT /* message/messages_of_owner */ m.partition, m.stream_no, m.position, s.queue, s.owner, s.name AS stream, m.id, m.kind,
       m.payload, m.headers::text AS headers, m.sent_at, m.not_before, m.attempts, m.started, m.waiting, m.error
  FROM windrow.streams s
 CROSS JOIN LATERAL (SELECT * FROM windrow.messages k WHERE k.partition = s.partition AND k.stream_no = s.no
                        AND (k.partition, k.stream_no, k.position) > ($4, $5, $6) ORDER BY k.position LIMIT $7) m
 WHERE s.owner || '' = $1
   AND ($2::smallint IS NULL OR s.queue = $2)
   AND ($3::text IS NULL OR s.name = $3)
   AND (s.partition, s.no) >= ($4, $5)
 ORDER BY s.partition, s.no, m.position LIMIT $7
