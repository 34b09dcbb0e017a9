-- The last version of a stream from now on.
INSERT INTO event_streams /* event/put_version */ (owner, stream, version)
VALUES (?1, ?2, ?3)
ON CONFLICT (owner, stream) DO UPDATE SET version = excluded.version
