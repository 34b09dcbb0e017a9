-- What an object is from now on.
INSERT INTO objects /* object/put_states */ (owner, stream, state, updated_at)
VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (owner, stream) DO UPDATE SET state = excluded.state, updated_at = excluded.updated_at
