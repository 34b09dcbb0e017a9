-- What is in flight now counts as used.
INSERT INTO permits /* permits/count_in_flight */ (target, instance_id, granted, used)
SELECT target, instance_id, sum(n), sum(n)
FROM leases
WHERE target = ?1
GROUP BY instance_id
