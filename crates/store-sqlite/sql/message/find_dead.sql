-- A dead letter as it is sent again; the owner is part of the question.
SELECT /* message/find_dead */ partition, stream_no, position, queue, owner, stream, message_id, kind,
    payload, headers, waiting
FROM dead_letters
WHERE id = ?1 AND (?2 IS NULL OR owner = ?2)
