-- The limit of a target and how much of it is granted to instances.
SELECT /* permits/limit */ in_flight_max, granted FROM targets WHERE target = ?1
