-- A file to be filled.
INSERT INTO files /* ingest/insert_file */
    (id, owner, name, purpose, state, created_at, touched_at, expires_at)
VALUES (?1, ?2, ?3, ?4, 'open', ?5, ?5, ?6)
