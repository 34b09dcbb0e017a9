-- Whether some lane of the batch is not done; uses batch_lanes_live_idx.
SELECT /* lane/any_live */ EXISTS (
    SELECT 1 FROM batch_lanes WHERE batch_id = ?1 AND phase <> 'done'
)
