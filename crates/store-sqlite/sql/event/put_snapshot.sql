-- A snapshot; an older one never replaces a newer one.
INSERT INTO snapshots AS s /* event/put_snapshot */ (owner, stream, version, state)
VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (owner, stream) DO UPDATE SET version = excluded.version, state = excluded.state
WHERE excluded.version >= s.version
