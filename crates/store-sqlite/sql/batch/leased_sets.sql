-- The outstanding sets of a batch. There are few leases: all are looked at.
SELECT /* batch/leased_sets */ lane, file_id, lines FROM leases WHERE batch_id = ?1
