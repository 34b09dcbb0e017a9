-- Returned lines of a lane whose time is still to come; uses returned_lane_idx.
SELECT /* returned/ahead */ id, attempts, crashes, tranche_max, lines
FROM returned
WHERE batch_id = ?1 AND lane = ?2 AND not_before > ?3
