-- Notes what somebody did; a repeat has no effect. The shared lock keeps the reaper from passing by between the look and
-- the note. found: whether the caller has such a batch.
WITH /* batch/add_act */ of AS (
    SELECT id FROM windrow.batches WHERE id = $2 AND ($3::text IS NULL OR owner = $3) AND deleted_at IS NULL FOR KEY SHARE
), noted AS (
    INSERT INTO windrow.acts (batch_id, id, at, actor, address, action)
    SELECT of.id, $4, coalesce($1, clock_timestamp()), $5, $6, $7 FROM of
    ON CONFLICT DO NOTHING
)
SELECT EXISTS (SELECT 1 FROM of) AS found
