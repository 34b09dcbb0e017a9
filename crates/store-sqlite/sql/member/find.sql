-- When an instance left, if it is known.
SELECT /* member/find */ tombstoned_at FROM members WHERE instance_id = ?1
