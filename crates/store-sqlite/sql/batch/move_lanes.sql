-- Sends what is left of a batch to another upstream. Leases keep the one that they were claimed for.
UPDATE batch_lanes /* batch/move_lanes */ SET upstream = ?2 WHERE batch_id = ?1 AND upstream <> ?2
