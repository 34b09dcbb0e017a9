-- Streams that nobody has looked at for long, with whether they can go; uses streams_by_look.
SELECT /* message/find_idle_streams */ s.no, s.touched_at,
    EXISTS (SELECT 1 FROM messages AS m WHERE m.partition = s.partition AND m.stream_no = s.no)
FROM streams AS s
WHERE s.looked_at <= ?1
ORDER BY s.looked_at
LIMIT ?2
