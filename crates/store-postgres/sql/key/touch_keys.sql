-- Notes when keys were used. Locks them sorted, so that two who note the same keys do not wait for each other in a circle.
WITH /* key/touch_keys */ used AS (
    SELECT id FROM windrow.keys WHERE id = ANY ($2) ORDER BY id FOR NO KEY UPDATE
)
UPDATE windrow.keys k SET last_used_at = greatest(k.last_used_at, coalesce($1, clock_timestamp()))
  FROM used WHERE k.id = used.id
