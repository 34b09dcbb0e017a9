-- The lanes of a batch have its deadline; the end of time stands for none.
UPDATE batch_lanes /* batch/begin_window_of_lanes */
SET due = ifnull((SELECT b.deadline FROM batches AS b WHERE b.id = ?1), ?2)
WHERE batch_id = ?1
