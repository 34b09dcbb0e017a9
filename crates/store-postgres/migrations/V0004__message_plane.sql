-- The message plane: partitions with one owner each, messages in the order of their streams, events,
-- objects and calls.

-- One row, fixed by whoever comes first.
CREATE TABLE windrow.message_setup (
    one          boolean PRIMARY KEY DEFAULT true CHECK (one),
    service      text NOT NULL,
    partitions   integer NOT NULL,
    object_types text[] NOT NULL,
    lifecycle    boolean NOT NULL
);

CREATE TABLE windrow.partitions (
    no         integer PRIMARY KEY,
    epoch      bigint NOT NULL DEFAULT 0,
    instance   uuid,
    is_suspect boolean NOT NULL DEFAULT false,
    taken_at   timestamptz
) WITH (fillfactor = 50);

-- Instances that sleep and want to be told of work.
CREATE TABLE windrow.sleepers (
    instance uuid PRIMARY KEY
);

-- A stream's row is its lock: positions are drawn under it, held to the commit, so that they rise in the order of the
-- commits. A send draws one number for all its streams; the row is locked and seldom written (touched_at: about when).
CREATE TABLE windrow.streams (
    no         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner      text COLLATE "C" NOT NULL,
    queue      smallint NOT NULL,
    name       text COLLATE "C" NOT NULL,
    partition  integer NOT NULL,
    touched_at timestamptz NOT NULL
) WITH (fillfactor = 50);
CREATE SEQUENCE windrow.message_positions;
CREATE UNIQUE INDEX streams_by_name ON windrow.streams (owner, queue, name);

-- attempts: tries that were counted. started: the epoch of a try that
-- may still run. waiting: consumers it still waits for; null for the usual one. history: [[micros, error], …].
CREATE TABLE windrow.messages (
    partition  integer NOT NULL,
    stream_no  bigint NOT NULL,
    position   bigint NOT NULL,
    id         text NOT NULL,
    kind       text NOT NULL,
    payload    bytea NOT NULL,
    headers    jsonb,
    sent_at    timestamptz NOT NULL,
    not_before timestamptz,
    attempts   integer NOT NULL DEFAULT 0,
    started    bigint,
    waiting    text[],
    error      text,
    history    jsonb,
    PRIMARY KEY (partition, stream_no, position)
);
CREATE INDEX messages_waiting ON windrow.messages (partition, not_before) WHERE not_before IS NOT NULL;

-- Ids that count once. The place is the message's own, to see whether it is still on its way.
CREATE TABLE windrow.message_ids (
    owner     text NOT NULL,
    id        text NOT NULL,
    digest    bytea NOT NULL,
    partition integer NOT NULL,
    stream_no bigint NOT NULL,
    position  bigint NOT NULL,
    seen_at   timestamptz NOT NULL,
    PRIMARY KEY (owner, id)
);
CREATE INDEX message_ids_by_time ON windrow.message_ids (seen_at);

CREATE TABLE windrow.dead_letters (
    id         uuid PRIMARY KEY,
    owner      text NOT NULL,
    queue      smallint NOT NULL,
    stream     text NOT NULL,
    partition  integer NOT NULL,
    stream_no  bigint NOT NULL,
    position   bigint NOT NULL,
    message_id text NOT NULL,
    kind       text NOT NULL,
    payload    bytea NOT NULL,
    headers    jsonb,
    sent_at    timestamptz NOT NULL,
    attempts   integer NOT NULL,
    waiting    text[],
    history    jsonb,
    error      text NOT NULL,
    dead_at    timestamptz NOT NULL
);
CREATE INDEX dead_letters_by_owner ON windrow.dead_letters (owner, dead_at, id);
CREATE INDEX dead_letters_by_time ON windrow.dead_letters (dead_at, id);
CREATE INDEX dead_letters_by_message ON windrow.dead_letters (owner, message_id);

-- What handlers keep between calls.
CREATE TABLE windrow.objects (
    owner      text NOT NULL,
    stream     text NOT NULL,
    state      bytea NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (owner, stream)
);

-- An event stream's row is its lock. feed_xid: the greatest that one of its events has.
CREATE TABLE windrow.event_streams (
    owner    text NOT NULL,
    stream   text NOT NULL,
    version  bigint NOT NULL,
    feed_xid xid8 NOT NULL,
    PRIMARY KEY (owner, stream)
) WITH (fillfactor = 50);

-- feed_xid: of the transaction that appended, or of the event before it in its stream when that is
-- greater, so that (feed_xid, feed_seq) keeps a stream's order. Readers stop before the oldest
-- transaction that is still open.
CREATE TABLE windrow.events (
    owner    text NOT NULL,
    stream   text NOT NULL,
    version  bigint NOT NULL,
    id       text NOT NULL,
    kind     text NOT NULL,
    payload  bytea NOT NULL,
    headers  jsonb,
    at       timestamptz NOT NULL,
    feed_xid xid8 NOT NULL,
    feed_seq bigint GENERATED ALWAYS AS IDENTITY,
    PRIMARY KEY (owner, stream, version)
);
CREATE INDEX events_feed ON windrow.events (feed_xid, feed_seq);

CREATE TABLE windrow.snapshots (
    owner   text NOT NULL,
    stream  text NOT NULL,
    version bigint NOT NULL,
    state   bytea NOT NULL,
    PRIMARY KEY (owner, stream)
);

CREATE TABLE windrow.calls (
    owner         text NOT NULL,
    request_id    text NOT NULL,
    object_type   text NOT NULL,
    object_id     text NOT NULL,
    method        text NOT NULL,
    hash          bytea NOT NULL,
    args          bytea NOT NULL,
    state         smallint NOT NULL,
    policy        text NOT NULL,
    reply         bytea,
    error         text,
    retry_count   integer NOT NULL DEFAULT 0,
    instance      uuid,
    waiter        uuid,
    caller_object text,
    caller_client text,
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    processed_at  timestamptz,
    expires_at    timestamptz,
    PRIMARY KEY (owner, request_id)
) WITH (fillfactor = 70);
CREATE INDEX calls_by_owner ON windrow.calls (owner, created_at, request_id);
CREATE INDEX calls_by_time ON windrow.calls (created_at, owner, request_id);
CREATE INDEX calls_by_object ON windrow.calls (object_type, object_id, created_at);
CREATE INDEX calls_by_instance ON windrow.calls (instance, created_at) WHERE instance IS NOT NULL;
CREATE INDEX calls_unanswered ON windrow.calls (state, updated_at) WHERE state < 2;
CREATE INDEX calls_answered ON windrow.calls (processed_at) WHERE processed_at IS NOT NULL;
CREATE INDEX calls_expiring ON windrow.calls (expires_at) WHERE expires_at IS NOT NULL;

-- Answered long ago, or expired: then without arguments and answer.
CREATE TABLE windrow.calls_archive (
    LIKE windrow.calls INCLUDING DEFAULTS,
    archived_at timestamptz NOT NULL,
    PRIMARY KEY (owner, request_id)
);
CREATE INDEX calls_archive_expiring ON windrow.calls_archive (expires_at) WHERE expires_at IS NOT NULL AND state < 4;
CREATE INDEX calls_archive_tombstones ON windrow.calls_archive (updated_at) WHERE state = 4;
