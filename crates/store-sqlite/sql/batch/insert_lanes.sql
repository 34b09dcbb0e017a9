-- One lane for each of the file's; O(lanes), whatever its size. All go to the target ?10, or else each to the file's. A
-- lane's upstream is the one that ?8 has for its target, or else ?9.
INSERT INTO batch_lanes /* batch/insert_lanes */
    (batch_id, lane, target, owner, file_id, priority, due, created_at, phase, claimable_at, total,
     upstream)
SELECT ?1, lane, ifnull(?10, target), ?3, ?2, ?4, ?5, ?6, 'open', ?7, lines,
    ifnull((SELECT value FROM json_each(?8) WHERE key = ifnull(?10, target)), ?9)
FROM file_lanes
WHERE file_id = ?2 AND lane >= 0 AND lines > 0
