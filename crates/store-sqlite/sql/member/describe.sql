-- An instance says anew what it is.
UPDATE members /* member/describe */ SET metadata = ?2 WHERE instance_id = ?1
