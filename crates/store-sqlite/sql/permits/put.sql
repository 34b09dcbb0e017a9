-- Writes what an instance has of a target.
INSERT INTO permits /* permits/put */ (target, instance_id, granted, used)
VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (target, instance_id) DO UPDATE SET granted = excluded.granted, used = excluded.used
