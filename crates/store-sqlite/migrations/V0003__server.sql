-- What a server needs: keys, output files that belong to a batch, and who did what.

CREATE TABLE keys (
    id           BLOB    NOT NULL PRIMARY KEY,
    hash         BLOB    NOT NULL UNIQUE,
    owner        TEXT    NOT NULL,
    role         TEXT    NOT NULL,
    name         TEXT    NOT NULL,
    hint         TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    last_used_at INTEGER,
    revoked_at   INTEGER
) STRICT;
CREATE INDEX keys_owner_idx ON keys (owner, created_at, id);
CREATE INDEX keys_created_idx ON keys (created_at, id);

CREATE TABLE acts (
    batch_id BLOB    NOT NULL,
    id       BLOB    NOT NULL,
    at       INTEGER NOT NULL,
    actor    TEXT    NOT NULL,
    address  TEXT,
    action   TEXT    NOT NULL,
    PRIMARY KEY (batch_id, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX acts_at_idx ON acts (batch_id, at, id);

-- output_secs: how long its outputs live after the closing.
ALTER TABLE batches ADD COLUMN output_secs INTEGER;
CREATE INDEX batches_open_owner_idx ON batches (owner) WHERE closed_at IS NULL;

-- errors: of one that failed, those of its file or its own.
ALTER TABLE batches ADD COLUMN errors TEXT;
UPDATE batches SET errors = (SELECT f.errors FROM files AS f WHERE f.id = batches.file_id)
WHERE state = 'failed';

-- endpoint: what every request of it asks for.
ALTER TABLE files ADD COLUMN endpoint TEXT;

-- Of an output: its name in the storage (null again once its bytes are gone), and whose it is.
ALTER TABLE files ADD COLUMN place TEXT;
ALTER TABLE files ADD COLUMN batch_id BLOB;
CREATE INDEX files_batch_idx ON files (batch_id) WHERE batch_id IS NOT NULL;
CREATE INDEX files_forget_idx ON files (id) WHERE state = 'dropped' AND place IS NOT NULL;
CREATE INDEX files_reap_idx ON files (id) WHERE state = 'dropped' AND place IS NULL;
