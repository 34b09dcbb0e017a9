-- When the first returned lines of a lane may be claimed; uses returned_lane_idx.
SELECT /* lane/returned_ready */ min(not_before)
FROM returned
WHERE batch_id = ?1 AND lane = ?2
