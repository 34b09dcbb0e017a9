-- Dead letters that were kept long enough; uses dead_letters_by_time.
DELETE FROM dead_letters /* message/tidy_dead */
WHERE id IN (SELECT id FROM dead_letters WHERE dead_at <= ?1 ORDER BY dead_at LIMIT ?2)
