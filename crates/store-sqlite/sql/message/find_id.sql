-- What was sent under an id that counts once, and where it is or was.
SELECT /* message/find_id */ digest, partition, stream_no, position
FROM message_ids
WHERE owner = ?1 AND queue = ?2 AND id = ?3
