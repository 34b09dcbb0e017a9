-- The last version of a stream, if it has events.
SELECT /* event/stream_version */ version FROM event_streams WHERE owner = ?1 AND stream = ?2
