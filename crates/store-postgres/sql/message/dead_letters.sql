-- Dead letters, newest first.
SELECT /* message/dead_letters */ id AS dead, partition, stream_no, position, queue, owner, stream, message_id AS id, kind,
       payload, headers::text AS headers, sent_at, NULL::timestamptz AS not_before, attempts, NULL::bigint AS started,
       waiting, NULL::text AS error, history::text AS history, error AS why, dead_at
  FROM windrow.dead_letters
 WHERE ($1::text IS NULL OR owner = $1)
   AND ($2::smallint IS NULL OR queue = $2)
   AND ($3::text IS NULL OR stream = $3)
   AND ($4::timestamptz IS NULL OR (dead_at, id) < ($4, $5))
 ORDER BY dead_at DESC, id DESC LIMIT $6
