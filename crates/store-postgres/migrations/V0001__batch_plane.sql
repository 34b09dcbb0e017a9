-- The batch plane: every line of a batch is in exactly one of four places.
-- Wide tables (templates, results, attempts) are insert-only and lead their keys with the file or batch, so that
-- they can be distributed by it; nothing references them by foreign key and no sequence feeds them.
CREATE SCHEMA IF NOT EXISTS windrow;

CREATE TABLE windrow.files (
    id         uuid PRIMARY KEY,
    owner      text NOT NULL,
    name       text NOT NULL,
    purpose    text NOT NULL,
    state      text NOT NULL,
    lines      bigint NOT NULL DEFAULT 0,
    bytes      bigint NOT NULL DEFAULT 0,
    chunks     int NOT NULL DEFAULT 0,
    errors     text,
    created_at timestamptz NOT NULL,
    touched_at timestamptz NOT NULL,
    sealed_at  timestamptz,
    expires_at timestamptz
);
CREATE INDEX files_by_owner ON windrow.files (owner, created_at, id);
CREATE INDEX files_by_time ON windrow.files (created_at, id);
CREATE INDEX files_to_sweep ON windrow.files (state) WHERE state IN ('open', 'dropped');
CREATE INDEX files_to_expire ON windrow.files (expires_at) WHERE expires_at IS NOT NULL;

-- Lane -1 holds the bytes that are no request: blank lines, and what could not be read.
CREATE TABLE windrow.file_lanes (
    file_id uuid NOT NULL,
    lane    smallint NOT NULL,
    target  text,
    lines   bigint NOT NULL,
    PRIMARY KEY (file_id, lane)
);

CREATE TABLE windrow.file_chunks (
    file_id uuid NOT NULL,
    no      int NOT NULL,
    bytes   bigint NOT NULL,
    spans   text NOT NULL,
    PRIMARY KEY (file_id, no)
);

CREATE TABLE windrow.templates (
    file_id uuid NOT NULL,
    lane    smallint NOT NULL,
    seq     bigint NOT NULL,
    line    bigint NOT NULL,
    raw     bytea NOT NULL,
    PRIMARY KEY (file_id, lane, seq)
);
-- Bodies are text that the wire and the page cache like as it is; compressing each costs more than it saves.
ALTER TABLE windrow.templates ALTER COLUMN raw SET STORAGE EXTERNAL;

CREATE TABLE windrow.batches (
    id              uuid PRIMARY KEY,
    file_id         uuid NOT NULL,
    owner           text NOT NULL,
    endpoint        text NOT NULL,
    state           text NOT NULL,
    generation      int NOT NULL DEFAULT 0,
    priority        smallint NOT NULL,
    job_type        text,
    source_address  text,
    metadata        text NOT NULL,
    idempotency_key text,
    created_at      timestamptz NOT NULL,
    deadline        timestamptz,
    cancelling_at   timestamptz,
    finalizing_at   timestamptz,
    closed_at       timestamptz,
    last_error      text,
    summary         text,
    deleted_at      timestamptz,
    final_token     bigint NOT NULL DEFAULT 0,
    final_by        uuid,
    final_until     timestamptz
);
CREATE UNIQUE INDEX batches_by_key ON windrow.batches (owner, idempotency_key)
    WHERE idempotency_key IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX batches_by_owner ON windrow.batches (owner, created_at, id) WHERE deleted_at IS NULL;
CREATE INDEX batches_by_time ON windrow.batches (created_at, id) WHERE deleted_at IS NULL;
CREATE INDEX batches_by_file ON windrow.batches (file_id);
CREATE INDEX batches_running ON windrow.batches (deadline) WHERE state IN ('in_progress', 'paused');
CREATE INDEX batches_open ON windrow.batches (id)
    WHERE state IN ('in_progress', 'paused', 'cancelling', 'expiring');
CREATE INDEX batches_finalizing ON windrow.batches (finalizing_at)
    WHERE state IN ('finalizing_completed', 'finalizing_cancelled', 'finalizing_expired');
CREATE INDEX batches_closed ON windrow.batches (closed_at) WHERE closed_at IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX batches_deleted ON windrow.batches (deleted_at) WHERE deleted_at IS NOT NULL;

-- The lock row of a lane: whoever moves its lines holds it. Rarely updated, so that a snapshot held elsewhere
-- leaves few dead versions of it. ready_at: the earliest time something may be claimed;
-- minus infinity while untouched lines remain, null for never.
CREATE TABLE windrow.batch_lanes (
    batch_id   uuid NOT NULL,
    lane       smallint NOT NULL,
    target     text NOT NULL,
    owner      text NOT NULL,
    file_id    uuid NOT NULL,
    priority   smallint NOT NULL,
    deadline   timestamptz,
    total      bigint NOT NULL,
    phase      text NOT NULL,
    ready_at   timestamptz,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (batch_id, lane)
);
CREATE INDEX lanes_ready ON windrow.batch_lanes (target, owner, priority DESC, deadline, batch_id, lane)
    WHERE ready_at IS NOT NULL;

-- A lane's numbers are its newest row here: written by inserting the next and deleting the last, under the lane's
-- lock. Reading the newest by key never wades through dead versions.
CREATE TABLE windrow.lane_states (
    batch_id  uuid NOT NULL,
    lane      smallint NOT NULL,
    step      bigint NOT NULL,
    cursor    bigint NOT NULL,
    returned  bigint NOT NULL,
    leased    bigint NOT NULL,
    completed bigint NOT NULL,
    failed    bigint NOT NULL,
    not_found bigint NOT NULL,
    skipped   bigint NOT NULL,
    PRIMARY KEY (batch_id, lane, step)
);

-- Lines that came back. Touched only under the lane's lock.
CREATE TABLE windrow.returned (
    id          bigint GENERATED ALWAYS AS IDENTITY,
    batch_id    uuid NOT NULL,
    lane        smallint NOT NULL,
    attempts    int NOT NULL,
    crashes     int NOT NULL,
    tranche_max int,
    not_before  timestamptz NOT NULL,
    lines       text NOT NULL,
    n           int NOT NULL,
    updated_at  timestamptz NOT NULL,
    PRIMARY KEY (batch_id, lane, id)
);
CREATE INDEX returned_by_time ON windrow.returned (batch_id, lane, not_before, id);

CREATE TABLE windrow.leases (
    id          uuid PRIMARY KEY,
    token       bigint GENERATED ALWAYS AS IDENTITY,
    instance_id uuid NOT NULL,
    batch_id    uuid NOT NULL,
    lane        smallint NOT NULL,
    file_id     uuid NOT NULL,
    target      text NOT NULL,
    owner       text NOT NULL,
    attempts    int NOT NULL,
    crashes     int NOT NULL,
    generation  int NOT NULL,
    lines       text NOT NULL,
    n           int NOT NULL,
    granted_n   int NOT NULL,
    version     int NOT NULL DEFAULT 0,
    granted_at  timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX leases_by_token ON windrow.leases (token);

CREATE TABLE windrow.results (
    batch_id    uuid NOT NULL,
    line        bigint NOT NULL,
    seq         bigint NOT NULL,
    created_at  timestamptz NOT NULL,
    lane        smallint NOT NULL,
    status      smallint NOT NULL,
    attempts    int NOT NULL,
    generation  int NOT NULL,
    http_status smallint,
    custom_id   text,
    error_code  text,
    error       text,
    response    bytea,
    shaped      text,
    normalised  text,
    PRIMARY KEY (batch_id, line)
);
ALTER TABLE windrow.results ALTER COLUMN response SET STORAGE EXTERNAL;
CREATE INDEX results_not_completed ON windrow.results (batch_id, line) WHERE status <> 0;

CREATE TABLE windrow.attempts (
    batch_id   uuid NOT NULL,
    line       bigint NOT NULL,
    generation int NOT NULL,
    attempt    int NOT NULL,
    class      text NOT NULL,
    error_code text NOT NULL,
    error      text NOT NULL,
    not_before timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (batch_id, line, generation, attempt)
);

CREATE TABLE windrow.members (
    instance_id   uuid PRIMARY KEY,
    service       text NOT NULL,
    host          text NOT NULL,
    pid           bigint NOT NULL,
    metadata      text NOT NULL,
    joined_at     timestamptz NOT NULL,
    heartbeat_at  timestamptz NOT NULL,
    tombstoned_at timestamptz
) WITH (fillfactor = 70);

-- Limits in flight: only targets that have one are here. granted = permits given to instances, in blocks.
CREATE TABLE windrow.targets (
    target        text PRIMARY KEY,
    in_flight_max int NOT NULL,
    granted       int NOT NULL
) WITH (fillfactor = 70);

CREATE TABLE windrow.permits (
    target      text NOT NULL,
    instance_id uuid NOT NULL,
    granted     int NOT NULL,
    used        int NOT NULL,
    PRIMARY KEY (target, instance_id)
) WITH (fillfactor = 70);
