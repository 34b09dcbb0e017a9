-- Which of the targets have as many lines in flight as they may; targets without a limit never do.
SELECT /* permits/full */ t.target
FROM targets AS t
WHERE t.target IN (SELECT value FROM json_each(?1))
    AND t.in_flight_max <= (SELECT ifnull(sum(p.used), 0) FROM permits AS p WHERE p.target = t.target)
