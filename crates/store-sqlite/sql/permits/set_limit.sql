-- Sets or changes the limit of a target.
INSERT INTO targets /* permits/set_limit */ (target, in_flight_max, granted)
VALUES (?1, ?2, 0)
ON CONFLICT (target) DO UPDATE SET in_flight_max = excluded.in_flight_max
