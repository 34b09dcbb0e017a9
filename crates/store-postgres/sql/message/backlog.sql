-- How much waits in every queue, counted up to $1 each; what is looked at is bounded by three times as much.
WITH /* message/backlog */ m AS (
    SELECT s.queue, count(*) AS n, min(x.sent_at) AS oldest
      FROM (SELECT stream_no, sent_at FROM windrow.messages LIMIT $1 * 3) x
      JOIN windrow.streams s ON s.no = x.stream_no GROUP BY s.queue
), d AS (
    SELECT x.queue, count(*) AS n FROM (SELECT queue FROM windrow.dead_letters LIMIT $1 * 3) x GROUP BY x.queue
)
SELECT q.queue::smallint AS queue, least(coalesce(m.n, 0), $1) AS messages, m.oldest, least(coalesce(d.n, 0), $1) AS dead
  FROM generate_series(0, 2) q(queue) LEFT JOIN m ON m.queue = q.queue LEFT JOIN d ON d.queue = q.queue
 ORDER BY q.queue
