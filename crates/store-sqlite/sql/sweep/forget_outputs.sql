-- The bytes of a dropped output are gone. Guarded by the place: a later closing may have made another.
UPDATE files /* sweep/forget_outputs */ SET place = NULL
WHERE id = ?1 AND place = ?2 AND state = 'dropped'
