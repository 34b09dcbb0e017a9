-- A call's message is done. Guarded: it is this call's and no other.
DELETE FROM messages /* call/end_message */
WHERE partition = ?1 AND stream_no = ?2 AND position = ?3 AND id = ?5
    AND EXISTS (SELECT 1 FROM streams AS s WHERE s.no = ?2 AND s.queue = 2 AND s.owner = ?4)
