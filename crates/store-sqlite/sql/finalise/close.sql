-- Closes a batch. Guarded by the token and the generation; who closed it stays known.
UPDATE batches /* finalise/close */
SET state = ?4, closed_at = ?5, summary = ?6, final_until = NULL
WHERE id = ?1 AND final_token = ?2 AND generation = ?3
