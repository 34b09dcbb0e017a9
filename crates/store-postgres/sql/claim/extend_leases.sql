-- Renews an instance's named leases; those it returns are still the instance's. Locks them sorted.
WITH /* claim/extend_leases */ held AS (
    SELECT id FROM windrow.leases WHERE id = ANY ($3) AND instance_id = $2 ORDER BY id FOR UPDATE
)
UPDATE windrow.leases l
   SET expires_at = coalesce($1, clock_timestamp()) + $4 * interval '1 ms'
  FROM held WHERE l.id = held.id
RETURNING l.id
