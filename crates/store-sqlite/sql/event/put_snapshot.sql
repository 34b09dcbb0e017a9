-- A snapshot; an older one never replaces a newer one. oldest_at: of the first event; a stream that has no snapshot has
-- all of its events.
INSERT INTO snapshots AS s /* event/put_snapshot */ (owner, stream, version, state, oldest_at)
VALUES (?1, ?2, ?3, ?4, ifnull((SELECT at FROM events WHERE owner = ?1 AND stream = ?2 AND version = 1), 0))
ON CONFLICT (owner, stream) DO UPDATE SET version = excluded.version, state = excluded.state
WHERE excluded.version >= s.version
