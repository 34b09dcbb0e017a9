-- Makes a closed batch vanish. One row when it is the caller's; deleted says whether it was closed.
WITH /* batch/delete_batch */ gone AS (
    UPDATE windrow.batches SET deleted_at = coalesce($1, clock_timestamp())
     WHERE id = $2 AND ($3::text IS NULL OR owner = $3) AND deleted_at IS NULL
       AND state IN ('completed', 'failed', 'cancelled', 'expired')
    RETURNING id
)
SELECT EXISTS (SELECT 1 FROM gone) AS deleted, b.state
  FROM windrow.batches b WHERE b.id = $2 AND ($3::text IS NULL OR b.owner = $3) AND b.deleted_at IS NULL
