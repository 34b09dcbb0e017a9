-- Dead letters of a queue, counted up to a bound; uses dead_letters_by_queue.
SELECT /* message/count_dead */ count(*)
FROM (SELECT 1 FROM dead_letters WHERE queue = ?1 LIMIT ?2) AS c
