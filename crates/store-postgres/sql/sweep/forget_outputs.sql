-- The bytes of dropped outputs are gone. Guarded by the place: a later closing may have made another. Skips what is locked.
WITH /* sweep/forget_outputs */ gone AS (
    SELECT f.id FROM unnest($1::uuid[], $2::text[]) o(id, place)
      JOIN windrow.files f ON f.id = o.id AND f.place = o.place AND f.state = 'dropped'
       FOR UPDATE OF f SKIP LOCKED
)
UPDATE windrow.files f SET place = NULL FROM gone WHERE f.id = gone.id
