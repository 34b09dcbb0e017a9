-- Whether the instance left or was buried.
SELECT /* claim/is_tombstoned */ EXISTS (
    SELECT 1 FROM members WHERE instance_id = ?1 AND tombstoned_at IS NOT NULL
)
