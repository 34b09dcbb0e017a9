-- A message that counts once is at another place now. Guarded by the old one.
UPDATE message_ids /* message/move_id */
SET partition = ?7, stream_no = ?8, position = ?9
WHERE owner = ?1 AND queue = ?2 AND id = ?3 AND partition = ?4 AND stream_no = ?5 AND position = ?6
