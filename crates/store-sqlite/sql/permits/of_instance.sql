-- What an instance was granted of a target, and what of it is in flight.
SELECT /* permits/of_instance */ granted, used
FROM permits
WHERE target = ?1 AND instance_id = ?2
