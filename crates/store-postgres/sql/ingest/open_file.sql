-- Opens a file, or finds the one that was opened under the same id. The row returned is what stands.
WITH /* ingest/open_file */ made AS (
    INSERT INTO windrow.files (id, owner, name, purpose, state, created_at, touched_at, expires_at)
    VALUES ($2, $3, $4, $5, 'open', coalesce($1, clock_timestamp()), coalesce($1, clock_timestamp()), $6)
    ON CONFLICT (id) DO NOTHING
    RETURNING owner, state
)
SELECT owner, state FROM made UNION ALL SELECT owner, state FROM windrow.files WHERE id = $2
