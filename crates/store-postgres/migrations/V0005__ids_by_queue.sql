-- An id counts once in its queue: what came in under an id may go out under the same.
ALTER TABLE windrow.message_ids ADD COLUMN queue smallint;
UPDATE windrow.message_ids x SET queue = coalesce(
    (SELECT s.queue FROM windrow.streams s WHERE s.no = x.stream_no),
    (SELECT d.queue FROM windrow.dead_letters d WHERE d.owner = x.owner AND d.message_id = x.id LIMIT 1), -1);
ALTER TABLE windrow.message_ids ALTER COLUMN queue SET NOT NULL;
ALTER TABLE windrow.message_ids DROP CONSTRAINT message_ids_pkey;
-- Where nobody knows any more, it stays used up in both.
INSERT INTO windrow.message_ids (owner, id, digest, partition, stream_no, position, seen_at, queue)
SELECT owner, id, digest, partition, stream_no, position, seen_at, 1 FROM windrow.message_ids WHERE queue = -1;
UPDATE windrow.message_ids SET queue = 0 WHERE queue = -1;
ALTER TABLE windrow.message_ids ADD PRIMARY KEY (owner, queue, id);
