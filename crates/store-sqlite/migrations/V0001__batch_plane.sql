-- The batch plane. Times are microseconds since the epoch, ids are the 16 bytes of a UUID.
-- The wide tables (templates, results) are insert-only and clustered on their key (WITHOUT ROWID):
-- one b-tree each, appended to in order, read by range.

CREATE TABLE files (
    id         BLOB    NOT NULL PRIMARY KEY,
    owner      TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    purpose    TEXT    NOT NULL,
    state      TEXT    NOT NULL,
    lines      INTEGER NOT NULL DEFAULT 0,
    bytes      INTEGER NOT NULL DEFAULT 0,
    chunks     INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    touched_at INTEGER NOT NULL,
    sealed_at  INTEGER,
    expires_at INTEGER,
    errors     TEXT
) STRICT;
CREATE INDEX files_owner_idx ON files (owner, created_at, id);
CREATE INDEX files_created_idx ON files (created_at, id);
CREATE INDEX files_open_idx ON files (touched_at) WHERE state = 'open';
CREATE INDEX files_expiring_idx ON files (expires_at)
    WHERE expires_at IS NOT NULL AND sealed_at IS NOT NULL;
CREATE INDEX files_dropped_idx ON files (id) WHERE state = 'dropped';

-- Lane -1 holds bytes that are no request; it has no target.
CREATE TABLE file_lanes (
    file_id BLOB    NOT NULL,
    lane    INTEGER NOT NULL,
    target  TEXT,
    lines   INTEGER NOT NULL,
    PRIMARY KEY (file_id, lane)
) STRICT, WITHOUT ROWID;

CREATE TABLE file_chunks (
    file_id BLOB    NOT NULL,
    no      INTEGER NOT NULL,
    bytes   INTEGER NOT NULL,
    spans   TEXT    NOT NULL,
    PRIMARY KEY (file_id, no)
) STRICT, WITHOUT ROWID;

CREATE TABLE templates (
    file_id BLOB    NOT NULL,
    lane    INTEGER NOT NULL,
    seq     INTEGER NOT NULL,
    line    INTEGER NOT NULL,
    raw     BLOB    NOT NULL,
    PRIMARY KEY (file_id, lane, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE batches (
    id              BLOB    NOT NULL PRIMARY KEY,
    file_id         BLOB    NOT NULL,
    owner           TEXT    NOT NULL,
    endpoint        TEXT    NOT NULL,
    state           TEXT    NOT NULL,
    generation      INTEGER NOT NULL DEFAULT 0,
    priority        INTEGER NOT NULL,
    job_type        TEXT,
    source_address  TEXT,
    metadata        TEXT    NOT NULL,
    idempotency_key TEXT,
    created_at      INTEGER NOT NULL,
    deadline        INTEGER,
    cancelling_at   INTEGER,
    finalizing_at   INTEGER,
    closed_at       INTEGER,
    deleted_at      INTEGER,
    final_token     INTEGER,
    final_by        BLOB,
    final_until     INTEGER,
    last_error      TEXT,
    summary         TEXT
) STRICT;
CREATE UNIQUE INDEX batches_key_idx ON batches (owner, idempotency_key)
    WHERE idempotency_key IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX batches_owner_idx ON batches (owner, created_at, id);
CREATE INDEX batches_created_idx ON batches (created_at, id);
CREATE INDEX batches_file_idx ON batches (file_id);
CREATE INDEX batches_running_idx ON batches (deadline)
    WHERE finalizing_at IS NULL AND closed_at IS NULL;
CREATE INDEX batches_finalizing_idx ON batches (finalizing_at, id)
    WHERE finalizing_at IS NOT NULL AND closed_at IS NULL;
CREATE INDEX batches_closed_idx ON batches (closed_at)
    WHERE closed_at IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX batches_deleted_idx ON batches (deleted_at) WHERE deleted_at IS NOT NULL;

-- The one hot row of a lane. ready_at: the earliest time something may be claimed; NULL for nothing
-- (not open, or drained). due: the deadline, or the end of time, so that an index can sort by it.
CREATE TABLE batch_lanes (
    batch_id   BLOB    NOT NULL,
    lane       INTEGER NOT NULL,
    target     TEXT    NOT NULL,
    owner      TEXT    NOT NULL,
    file_id    BLOB    NOT NULL,
    priority   INTEGER NOT NULL,
    due        INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    phase      TEXT    NOT NULL,
    ready_at   INTEGER,
    total      INTEGER NOT NULL,
    cursor     INTEGER NOT NULL DEFAULT 0,
    returned   INTEGER NOT NULL DEFAULT 0,
    leased     INTEGER NOT NULL DEFAULT 0,
    completed  INTEGER NOT NULL DEFAULT 0,
    failed     INTEGER NOT NULL DEFAULT 0,
    not_found  INTEGER NOT NULL DEFAULT 0,
    skipped    INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (batch_id, lane)
) STRICT, WITHOUT ROWID;
CREATE INDEX batch_lanes_ready_idx
    ON batch_lanes (target, owner, priority DESC, due, batch_id, lane, ready_at)
    WHERE ready_at IS NOT NULL;
CREATE INDEX batch_lanes_live_idx ON batch_lanes (batch_id, lane) WHERE phase <> 'done';

CREATE TABLE returned (
    id          INTEGER NOT NULL PRIMARY KEY,
    batch_id    BLOB    NOT NULL,
    lane        INTEGER NOT NULL,
    attempts    INTEGER NOT NULL,
    crashes     INTEGER NOT NULL,
    tranche_max INTEGER,
    not_before  INTEGER NOT NULL,
    n           INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    lines       TEXT    NOT NULL
) STRICT;
CREATE INDEX returned_lane_idx ON returned (batch_id, lane, not_before);

-- granted: how many lines it held when it was granted; n: how many are outstanding.
CREATE TABLE leases (
    id          BLOB    NOT NULL PRIMARY KEY,
    token       INTEGER NOT NULL,
    instance_id BLOB    NOT NULL,
    batch_id    BLOB    NOT NULL,
    lane        INTEGER NOT NULL,
    file_id     BLOB    NOT NULL,
    target      TEXT    NOT NULL,
    owner       TEXT    NOT NULL,
    attempts    INTEGER NOT NULL,
    crashes     INTEGER NOT NULL,
    generation  INTEGER NOT NULL,
    version     INTEGER NOT NULL,
    granted     INTEGER NOT NULL,
    n           INTEGER NOT NULL,
    granted_at  INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    lines       TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX leases_owner_idx ON leases (owner, n);

-- Leases and finalisations draw their tokens here: never the same one twice, always rising.
CREATE TABLE tokens (
    id   INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    last INTEGER NOT NULL
) STRICT;
INSERT INTO tokens (id, last) VALUES (1, 0);

CREATE TABLE results (
    batch_id    BLOB    NOT NULL,
    line        INTEGER NOT NULL,
    lane        INTEGER NOT NULL,
    seq         INTEGER NOT NULL,
    status      INTEGER NOT NULL,
    attempts    INTEGER NOT NULL,
    generation  INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    http_status INTEGER,
    custom_id   TEXT,
    error_code  TEXT,
    error       TEXT,
    shaped      TEXT,
    response    BLOB,
    normalised  TEXT,
    PRIMARY KEY (batch_id, line)
) STRICT, WITHOUT ROWID;
-- Completed rows, which are nearly all of them, pay nothing for it.
CREATE INDEX results_unwell_idx ON results (batch_id, status, line) WHERE status <> 0;

CREATE TABLE attempts (
    batch_id   BLOB    NOT NULL,
    line       INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    attempt    INTEGER NOT NULL,
    class      TEXT    NOT NULL,
    not_before INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    error_code TEXT    NOT NULL,
    error      TEXT    NOT NULL,
    PRIMARY KEY (batch_id, line, generation, attempt)
) STRICT, WITHOUT ROWID;

CREATE TABLE members (
    instance_id   BLOB    NOT NULL PRIMARY KEY,
    service       TEXT    NOT NULL,
    host          TEXT    NOT NULL,
    pid           INTEGER NOT NULL,
    metadata      TEXT    NOT NULL,
    joined_at     INTEGER NOT NULL,
    heartbeat_at  INTEGER NOT NULL,
    tombstoned_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE targets (
    target        TEXT    NOT NULL PRIMARY KEY,
    in_flight_max INTEGER NOT NULL,
    granted       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE permits (
    target      TEXT    NOT NULL,
    instance_id BLOB    NOT NULL,
    granted     INTEGER NOT NULL,
    used        INTEGER NOT NULL,
    PRIMARY KEY (target, instance_id)
) STRICT, WITHOUT ROWID;
