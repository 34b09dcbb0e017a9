-- Keeps a snapshot, unless a newer one is there. found: the stream has that version. oldest_at: of the first event; a stream
-- that has no snapshot has all of its events.
WITH /* event/put_snapshot */ s AS (
    SELECT 1 FROM windrow.event_streams WHERE owner = $1 AND stream = $2 AND version >= $3 AND $3 > 0
), put AS (
    INSERT INTO windrow.snapshots AS o (owner, stream, version, state, oldest_at)
    SELECT $1, $2, $3, $4, coalesce(
               (SELECT e.at FROM windrow.events e WHERE e.owner = $1 AND e.stream = $2 AND e.version = 1), '-infinity')
      FROM s
    ON CONFLICT (owner, stream) DO UPDATE SET version = excluded.version, state = excluded.state
     WHERE o.version <= excluded.version
)
SELECT EXISTS (SELECT 1 FROM s) AS found
