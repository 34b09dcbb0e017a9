-- One lane for each of the file's; O(lanes), whatever its size.
INSERT INTO batch_lanes /* batch/insert_lanes */
    (batch_id, lane, target, owner, file_id, priority, due, created_at, phase, ready_at, total)
SELECT ?1, lane, target, ?3, ?2, ?4, ?5, ?6, 'open', ?7, lines
FROM file_lanes
WHERE file_id = ?2 AND lane >= 0 AND lines > 0
