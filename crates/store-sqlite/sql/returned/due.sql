-- Returned lines of a lane that may be claimed, oldest first; uses returned_lane_idx.
SELECT /* returned/due */ id, attempts, crashes, tranche_max, n, lines
FROM returned
WHERE batch_id = ?1 AND lane = ?2 AND not_before <= ?3
ORDER BY not_before, id
