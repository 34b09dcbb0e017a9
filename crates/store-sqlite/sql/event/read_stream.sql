-- A stream's events from a version on; uses events_by_stream.
SELECT /* event/read_stream */ feed_seq, owner, stream, version, id, kind, payload, headers, at
FROM events
WHERE owner = ?1 AND stream = ?2 AND version >= ?3
ORDER BY version
LIMIT ?4
