-- Forgets a dead letter; the owner is part of the question.
DELETE FROM dead_letters /* message/discard_dead */
WHERE id = ?1 AND (?2 IS NULL OR owner = ?2)
