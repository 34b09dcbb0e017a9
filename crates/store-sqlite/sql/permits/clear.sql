-- Forgets who has what of a target.
DELETE FROM permits /* permits/clear */ WHERE target = ?1
