-- Forgets dead letters; sorted, so that two who do it at once do not meet crosswise.
WITH /* message/discard_dead */ gone AS (
    SELECT id FROM windrow.dead_letters WHERE id = ANY ($2) AND ($1::text IS NULL OR owner = $1) ORDER BY id FOR UPDATE
)
DELETE FROM windrow.dead_letters d USING gone WHERE d.id = gone.id RETURNING d.id
