-- How many batches of an owner are not closed; uses batches_open_owner_idx.
SELECT /* batch/count_open */ count(*) FROM batches WHERE owner = ?1 AND closed_at IS NULL
