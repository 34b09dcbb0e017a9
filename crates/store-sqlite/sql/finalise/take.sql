-- Gives the right to close a batch, or renews it.
UPDATE batches /* finalise/take */
SET final_token = ?2, final_by = ?3, final_until = ?4
WHERE id = ?1
