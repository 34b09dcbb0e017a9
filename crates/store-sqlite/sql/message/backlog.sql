-- What waits in each queue, as far as the first messages tell; reads no payload.
SELECT /* message/backlog */ s.queue, count(*), min(w.sent_at)
FROM (SELECT backlog.stream_no, backlog.sent_at FROM messages AS backlog LIMIT ?1) AS w
CROSS JOIN streams AS s ON s.no = w.stream_no
GROUP BY s.queue
