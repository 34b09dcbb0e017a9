-- A message is done.
DELETE FROM messages /* message/commit_done */
WHERE partition = ?1 AND stream_no = ?2 AND position = ?3
