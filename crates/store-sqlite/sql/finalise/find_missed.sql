-- Batches that run though every lane is done: the fold's own test, as a second layer.
SELECT /* finalise/find_missed */ b.id
FROM batches AS b
WHERE b.finalizing_at IS NULL AND b.closed_at IS NULL AND b.deleted_at IS NULL
    AND NOT EXISTS (SELECT 1 FROM batch_lanes AS l WHERE l.batch_id = b.id AND l.phase <> 'done')
LIMIT ?1
