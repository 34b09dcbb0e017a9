-- An owner's events behind a place in the feed; uses events_by_owner.
SELECT /* event/read_all_of_owner */ feed_seq, owner, stream, version, id, kind, payload, headers, at
FROM events
WHERE owner = ?3 AND feed_seq > ?1
ORDER BY feed_seq
LIMIT ?2
