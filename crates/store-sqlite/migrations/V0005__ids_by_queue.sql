-- An id counts once in its queue: what came in under an id may go out under the same.
CREATE TABLE message_ids_by_queue (
    owner     TEXT    NOT NULL,
    queue     INTEGER NOT NULL,
    id        TEXT    NOT NULL,
    digest    BLOB    NOT NULL,
    partition INTEGER NOT NULL,
    stream_no INTEGER NOT NULL,
    position  INTEGER NOT NULL,
    seen_at   INTEGER NOT NULL,
    PRIMARY KEY (owner, queue, id)
) STRICT, WITHOUT ROWID;
INSERT INTO message_ids_by_queue
SELECT x.owner,
    coalesce(
        (SELECT s.queue FROM streams AS s WHERE s.no = x.stream_no),
        (SELECT d.queue FROM dead_letters AS d WHERE d.owner = x.owner AND d.message_id = x.id LIMIT 1),
        -1),
    x.id, x.digest, x.partition, x.stream_no, x.position, x.seen_at
FROM message_ids AS x;
-- Where nobody knows any more, it stays used up in both.
INSERT INTO message_ids_by_queue
SELECT owner, 1, id, digest, partition, stream_no, position, seen_at FROM message_ids_by_queue WHERE queue = -1;
UPDATE message_ids_by_queue SET queue = 0 WHERE queue = -1;
DROP TABLE message_ids;
ALTER TABLE message_ids_by_queue RENAME TO message_ids;
CREATE INDEX message_ids_by_time ON message_ids (seen_at);
