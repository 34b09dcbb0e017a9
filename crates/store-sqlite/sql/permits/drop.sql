-- An instance that has nothing of a target keeps no row.
DELETE FROM permits /* permits/drop */ WHERE target = ?1 AND instance_id = ?2
