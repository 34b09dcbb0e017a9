-- Everybody, by the time they joined.
SELECT /* member/members */ * FROM windrow.members ORDER BY joined_at, instance_id
