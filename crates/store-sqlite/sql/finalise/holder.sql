-- Who finalises a batch, until when, by which right, and whether they are tombstoned.
SELECT /* finalise/holder */ final_token, final_by, final_until, EXISTS (
    SELECT 1 FROM members AS m WHERE m.instance_id = final_by AND m.tombstoned_at IS NOT NULL
)
FROM batches
WHERE id = ?1
