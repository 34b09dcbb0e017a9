-- A stream, with its first place given.
INSERT INTO streams /* message/add_stream */
    (owner, queue, name, partition, position, touched_at, looked_at)
VALUES (?1, ?2, ?3, ?4, 1, ?5, ?5)
RETURNING no
