-- Everybody's events behind a place in the feed.
SELECT /* event/read_all */ feed_seq, owner, stream, version, id, kind, payload, headers, at
FROM events
WHERE feed_seq > ?1
ORDER BY feed_seq
LIMIT ?2
