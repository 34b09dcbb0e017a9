-- An instance left; the first time counts.
UPDATE members /* member/tombstone */
SET tombstoned_at = ?2
WHERE instance_id = ?1 AND tombstoned_at IS NULL
