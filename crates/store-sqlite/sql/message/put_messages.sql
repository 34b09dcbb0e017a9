-- A message at its place.
INSERT INTO messages /* message/put_messages */
    (partition, stream_no, position, id, kind, payload, headers, sent_at, not_before, waiting)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
