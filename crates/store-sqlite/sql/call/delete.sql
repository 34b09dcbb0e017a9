-- A call leaves; the archive has it.
DELETE FROM calls /* call/delete */ WHERE owner = ?1 AND request_id = ?2
