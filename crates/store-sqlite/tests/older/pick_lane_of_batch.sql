-- The lane to claim from next, of one batch.
SELECT /* claim/pick_lane_of_batch */ l.batch_id, l.lane, l.target, l.owner, l.file_id, l.total,
    l.cursor, (SELECT b.generation FROM batches AS b WHERE b.id = l.batch_id)
FROM batch_lanes AS l
WHERE l.batch_id = ?3 AND l.ready_at IS NOT NULL AND l.ready_at <= ?2
    AND l.target IN (SELECT value FROM json_each(?1))
ORDER BY l.lane
LIMIT 1
