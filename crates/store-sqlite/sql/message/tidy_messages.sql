-- Ids seen long ago whose message is neither on its way nor given up on; uses message_ids_by_time.
DELETE FROM message_ids /* message/tidy_messages */
WHERE (owner, queue, id) IN (
    SELECT i.owner, i.queue, i.id
    FROM message_ids AS i
    WHERE i.seen_at <= ?1
        AND NOT EXISTS (
            SELECT 1 FROM messages AS m
            WHERE m.partition = i.partition AND m.stream_no = i.stream_no AND m.position = i.position
        )
        AND NOT EXISTS (
            SELECT 1 FROM dead_letters AS d WHERE d.owner = i.owner AND d.message_id = i.id AND d.queue = i.queue
        )
    ORDER BY i.seen_at
    LIMIT ?2
)
