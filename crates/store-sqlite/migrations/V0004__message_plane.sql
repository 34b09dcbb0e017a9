-- The message plane: partitions with one owner each, messages in the order of their streams, events,
-- objects and calls. Times are microseconds, ids of ours the 16 bytes of a UUID, lists are JSON.
-- Absent on purpose: who sleeps. Nobody can be told through a file, so nobody asks to be.

-- One row, fixed by whoever comes first.
CREATE TABLE message_setup (
    one          INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    service      TEXT    NOT NULL,
    partitions   INTEGER NOT NULL,
    object_types TEXT    NOT NULL,
    lifecycle    INTEGER NOT NULL
) STRICT;

CREATE TABLE partitions (
    no         INTEGER NOT NULL PRIMARY KEY,
    epoch      INTEGER NOT NULL DEFAULT 0,
    instance   BLOB,
    is_suspect INTEGER NOT NULL DEFAULT 0,
    taken_at   INTEGER
) STRICT;

-- position: of the last message. A number is never given twice: ids remember places.
-- looked_at: when it was last looked at whether it can go; only that is indexed, so that sending
-- moves no entry of an index.
CREATE TABLE streams (
    no         INTEGER PRIMARY KEY AUTOINCREMENT,
    owner      TEXT    NOT NULL,
    queue      INTEGER NOT NULL,
    name       TEXT    NOT NULL,
    partition  INTEGER NOT NULL,
    position   INTEGER NOT NULL,
    touched_at INTEGER NOT NULL,
    looked_at  INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX streams_by_name ON streams (owner, queue, name);
CREATE INDEX streams_by_owner ON streams (owner, partition);
CREATE INDEX streams_by_look ON streams (looked_at);

-- attempts: tries that were counted. started: the epoch of a try that may still run. waiting: consumers
-- it still waits for; null for the usual one. history: [[micros, error], …]. The payload comes last, so
-- that everything else is read without it.
CREATE TABLE messages (
    partition  INTEGER NOT NULL,
    stream_no  INTEGER NOT NULL,
    position   INTEGER NOT NULL,
    id         TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    sent_at    INTEGER NOT NULL,
    not_before INTEGER,
    attempts   INTEGER NOT NULL DEFAULT 0,
    started    INTEGER,
    waiting    TEXT,
    error      TEXT,
    history    TEXT,
    headers    TEXT,
    payload    BLOB    NOT NULL,
    PRIMARY KEY (partition, stream_no, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX messages_waiting ON messages (partition, not_before) WHERE not_before IS NOT NULL;

-- Ids that count once. The place is the message's own, to see whether it is still on its way.
CREATE TABLE message_ids (
    owner     TEXT    NOT NULL,
    id        TEXT    NOT NULL,
    digest    BLOB    NOT NULL,
    partition INTEGER NOT NULL,
    stream_no INTEGER NOT NULL,
    position  INTEGER NOT NULL,
    seen_at   INTEGER NOT NULL,
    PRIMARY KEY (owner, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX message_ids_by_time ON message_ids (seen_at);

CREATE TABLE dead_letters (
    id         BLOB    NOT NULL PRIMARY KEY,
    owner      TEXT    NOT NULL,
    queue      INTEGER NOT NULL,
    stream     TEXT    NOT NULL,
    partition  INTEGER NOT NULL,
    stream_no  INTEGER NOT NULL,
    position   INTEGER NOT NULL,
    message_id TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    sent_at    INTEGER NOT NULL,
    attempts   INTEGER NOT NULL,
    waiting    TEXT,
    history    TEXT,
    error      TEXT    NOT NULL,
    dead_at    INTEGER NOT NULL,
    headers    TEXT,
    payload    BLOB    NOT NULL
) STRICT;
CREATE INDEX dead_letters_by_owner ON dead_letters (owner, dead_at, id);
CREATE INDEX dead_letters_by_time ON dead_letters (dead_at, id);
CREATE INDEX dead_letters_by_queue ON dead_letters (queue);
CREATE INDEX dead_letters_by_message ON dead_letters (owner, message_id);

-- What handlers keep between calls.
CREATE TABLE objects (
    owner      TEXT    NOT NULL,
    stream     TEXT    NOT NULL,
    state      BLOB    NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (owner, stream)
) STRICT, WITHOUT ROWID;

CREATE TABLE event_streams (
    owner   TEXT    NOT NULL,
    stream  TEXT    NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (owner, stream)
) STRICT, WITHOUT ROWID;

-- feed_seq is the order of the commits: one writer gives it.
CREATE TABLE events (
    feed_seq INTEGER NOT NULL PRIMARY KEY,
    owner    TEXT    NOT NULL,
    stream   TEXT    NOT NULL,
    version  INTEGER NOT NULL,
    id       TEXT    NOT NULL,
    kind     TEXT    NOT NULL,
    at       INTEGER NOT NULL,
    headers  TEXT,
    payload  BLOB    NOT NULL
) STRICT;
CREATE UNIQUE INDEX events_by_stream ON events (owner, stream, version);
CREATE INDEX events_by_owner ON events (owner, feed_seq);

CREATE TABLE snapshots (
    owner   TEXT    NOT NULL,
    stream  TEXT    NOT NULL,
    version INTEGER NOT NULL,
    state   BLOB    NOT NULL,
    PRIMARY KEY (owner, stream)
) STRICT, WITHOUT ROWID;

CREATE TABLE calls (
    owner         TEXT    NOT NULL,
    request_id    TEXT    NOT NULL,
    object_type   TEXT    NOT NULL,
    object_id     TEXT    NOT NULL,
    method        TEXT    NOT NULL,
    hash          BLOB    NOT NULL,
    state         INTEGER NOT NULL,
    policy        TEXT    NOT NULL,
    retry_count   INTEGER NOT NULL DEFAULT 0,
    instance      BLOB,
    waiter        BLOB,
    caller_object TEXT,
    caller_client TEXT,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    processed_at  INTEGER,
    expires_at    INTEGER,
    error         TEXT,
    reply         BLOB,
    args          BLOB    NOT NULL,
    PRIMARY KEY (owner, request_id)
) STRICT;
CREATE INDEX calls_by_owner ON calls (owner, created_at, request_id);
CREATE INDEX calls_by_time ON calls (created_at, owner, request_id);
CREATE INDEX calls_by_object ON calls (object_type, object_id, created_at);
CREATE INDEX calls_by_instance ON calls (instance, created_at) WHERE instance IS NOT NULL;
CREATE INDEX calls_unanswered ON calls (state, updated_at) WHERE state < 2;
CREATE INDEX calls_answered ON calls (processed_at) WHERE processed_at IS NOT NULL;
CREATE INDEX calls_expiring ON calls (expires_at) WHERE expires_at IS NOT NULL;

-- Answered long ago, or expired: then without arguments and answer.
CREATE TABLE calls_archive (
    owner         TEXT    NOT NULL,
    request_id    TEXT    NOT NULL,
    object_type   TEXT    NOT NULL,
    object_id     TEXT    NOT NULL,
    method        TEXT    NOT NULL,
    hash          BLOB    NOT NULL,
    state         INTEGER NOT NULL,
    policy        TEXT    NOT NULL,
    retry_count   INTEGER NOT NULL DEFAULT 0,
    instance      BLOB,
    waiter        BLOB,
    caller_object TEXT,
    caller_client TEXT,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    processed_at  INTEGER,
    expires_at    INTEGER,
    error         TEXT,
    reply         BLOB,
    args          BLOB    NOT NULL,
    archived_at   INTEGER NOT NULL,
    PRIMARY KEY (owner, request_id)
) STRICT;
CREATE INDEX calls_archive_expiring ON calls_archive (expires_at)
    WHERE expires_at IS NOT NULL AND state < 4;
CREATE INDEX calls_archive_tombstones ON calls_archive (updated_at) WHERE state = 4;
