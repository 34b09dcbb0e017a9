-- An output of the batch that is being closed, in the place of an earlier one. No row changes when the
-- id is another file's.
INSERT INTO files /* finalise/put_output */
    (id, owner, name, purpose, state, lines, bytes, created_at, touched_at, sealed_at, expires_at,
     place, batch_id)
VALUES (?1, ?2, ?3, 'batch_output', 'sealed', ?4, ?5, ?6, ?6, ?6, ?7, ?8, ?9)
ON CONFLICT (id) DO UPDATE SET
    owner = excluded.owner, name = excluded.name, state = excluded.state, lines = excluded.lines,
    bytes = excluded.bytes, created_at = excluded.created_at, touched_at = excluded.touched_at,
    sealed_at = excluded.sealed_at, expires_at = excluded.expires_at, place = excluded.place
WHERE files.batch_id = excluded.batch_id
