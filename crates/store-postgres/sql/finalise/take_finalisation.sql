-- Takes the right to close a batch that is finalizing: free, expired, held by one who is tombstoned, or the caller's own
-- (same token, longer time).
-- No row when somebody else holds it or the batch is not finalizing.
UPDATE /* finalise/take_finalisation */ windrow.batches
   SET final_token = final_token + (final_by IS DISTINCT FROM $3)::int,
       final_by = $3, final_until = coalesce($1, clock_timestamp()) + $4 * interval '1 ms'
 WHERE id = $2 AND deleted_at IS NULL
   AND state IN ('finalizing_completed', 'finalizing_cancelled', 'finalizing_expired')
   AND (final_by IS NULL OR final_by = $3 OR final_until <= coalesce($1, clock_timestamp())
        OR EXISTS (SELECT 1 FROM windrow.members m WHERE m.instance_id = final_by AND m.tombstoned_at IS NOT NULL))
RETURNING final_token, generation, state, final_until
