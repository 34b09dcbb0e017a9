-- A message that counts once is at another place now. Guarded by the old one.
UPDATE message_ids /* message/move_id */
SET partition = ?6, stream_no = ?7, position = ?8
WHERE owner = ?1 AND id = ?2 AND partition = ?3 AND stream_no = ?4 AND position = ?5
