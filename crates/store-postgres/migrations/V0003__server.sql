-- What a server needs: keys, output files that belong to a batch, and who did what.

CREATE TABLE windrow.keys (
    id           uuid PRIMARY KEY,
    hash         bytea NOT NULL UNIQUE,
    owner        text NOT NULL,
    role         text NOT NULL,
    name         text NOT NULL,
    hint         text NOT NULL,
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz,
    last_used_at timestamptz,
    revoked_at   timestamptz
) WITH (fillfactor = 70);
CREATE INDEX keys_by_owner ON windrow.keys (owner, created_at, id);
CREATE INDEX keys_by_time ON windrow.keys (created_at, id);

CREATE TABLE windrow.acts (
    batch_id uuid NOT NULL,
    id       uuid NOT NULL,
    at       timestamptz NOT NULL,
    actor    text NOT NULL,
    address  text,
    action   text NOT NULL,
    PRIMARY KEY (batch_id, id)
);
CREATE INDEX acts_by_time ON windrow.acts (batch_id, at, id);

-- output_secs: how long its outputs live after the closing.
ALTER TABLE windrow.batches ADD COLUMN output_secs bigint;
CREATE INDEX batches_open_by_owner ON windrow.batches (owner) WHERE closed_at IS NULL;

-- errors: of one that failed, those of its file or its own.
ALTER TABLE windrow.batches ADD COLUMN errors text;
UPDATE windrow.batches SET errors = (SELECT f.errors FROM windrow.files f WHERE f.id = file_id) WHERE state = 'failed';

-- endpoint: what every request of it asks for.
ALTER TABLE windrow.files ADD COLUMN endpoint text;

-- Of an output: its name in the storage (null again once its bytes are gone), and whose it is.
ALTER TABLE windrow.files ADD COLUMN place text, ADD COLUMN batch_id uuid;
CREATE INDEX files_by_batch ON windrow.files (batch_id) WHERE batch_id IS NOT NULL;
CREATE INDEX files_to_forget ON windrow.files (id) WHERE state = 'dropped' AND place IS NOT NULL;
CREATE INDEX files_to_reap ON windrow.files (id) WHERE state = 'dropped' AND place IS NULL;
