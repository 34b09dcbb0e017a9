-- Makes the target's row agree with its instances.
UPDATE targets /* permits/recount */
SET granted = (SELECT ifnull(sum(granted), 0) FROM permits WHERE permits.target = ?1)
WHERE target = ?1
