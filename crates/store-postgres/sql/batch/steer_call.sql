-- Moves a batch from one running state to another.
SELECT /* batch/steer_call */ steered, finalizing FROM {fn}.steer_batch($1, $2, $3, $4, $5, $6, $7)
