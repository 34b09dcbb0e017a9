-- A result that runs again.
DELETE FROM results /* batch/delete_result */ WHERE batch_id = ?1 AND line = ?2
