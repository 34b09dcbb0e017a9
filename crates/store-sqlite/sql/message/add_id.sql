-- Remembers an id that counts once.
INSERT INTO message_ids /* message/add_id */
    (owner, queue, id, digest, partition, stream_no, position, seen_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
