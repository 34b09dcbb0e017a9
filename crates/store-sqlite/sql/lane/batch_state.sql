-- Where a batch stands.
SELECT /* lane/batch_state */ state FROM batches WHERE id = ?1
