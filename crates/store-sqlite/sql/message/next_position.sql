-- The next place in a stream; uses streams_by_name.
UPDATE streams /* message/next_position */
SET position = position + 1, touched_at = ?4
WHERE owner = ?1 AND queue = ?2 AND name = ?3
RETURNING no, partition, position
