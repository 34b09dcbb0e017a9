-- Notes what somebody did; a repeat has no effect. The shared lock keeps the reaper from passing by between the look and
-- the note. The oldest go, as far as they are too many ($8): what another call removes at the same moment is left to it.
-- found: whether the caller has such a batch. Uses acts_by_time.
WITH /* batch/add_act */ of AS (
    SELECT id FROM windrow.batches WHERE id = $2 AND ($3::text IS NULL OR owner = $3) AND deleted_at IS NULL FOR KEY SHARE
), noted AS (
    INSERT INTO windrow.acts (batch_id, id, at, actor, address, action)
    SELECT of.id, $4, coalesce($1, clock_timestamp()), $5, $6, $7 FROM of
    ON CONFLICT DO NOTHING RETURNING id
), old AS (
    SELECT a.batch_id, a.id FROM windrow.acts a
     WHERE a.batch_id = (SELECT of.id FROM of) AND EXISTS (SELECT 1 FROM noted)
     ORDER BY a.at DESC, a.id DESC OFFSET $8::bigint - 1
), going AS (
    SELECT a.batch_id, a.id FROM windrow.acts a JOIN old USING (batch_id, id) FOR UPDATE OF a SKIP LOCKED
), gone AS (
    DELETE FROM windrow.acts a USING going WHERE a.batch_id = going.batch_id AND a.id = going.id
)
SELECT EXISTS (SELECT 1 FROM of) AS found
