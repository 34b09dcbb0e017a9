-- A lane belongs to its upstream: no process that serves another claims lines of it. '' is a program's
-- own executor, '?' an upstream that was not known when the batch was made; the first claim binds it.
ALTER TABLE batch_lanes ADD COLUMN upstream TEXT NOT NULL DEFAULT '?';
ALTER TABLE leases ADD COLUMN upstream TEXT NOT NULL DEFAULT '?';

-- What `windrow run` began goes on to the URL that it was begun for, and to no other: scheme, host,
-- explicit port, path without its last slash. The stored URL was normalised before, and has a path.
WITH urls (batch_id, scheme, rest) AS (
    SELECT id, substr(url, 1, instr(url, '://') - 1), substr(url, instr(url, '://') + 3)
    FROM (SELECT id, json_extract(metadata, '$.to') AS url FROM batches WHERE job_type = 'run')
    WHERE url LIKE 'http://%/%' OR url LIKE 'https://%/%'
),
parts (batch_id, scheme, authority, path) AS (
    SELECT batch_id, scheme, substr(rest, 1, instr(rest, '/') - 1),
        rtrim(substr(rest, instr(rest, '/')), '/')
    FROM urls
    WHERE instr(rest, '/') > 1
)
UPDATE batch_lanes
SET upstream = (
    SELECT p.scheme || '://' || p.authority
        || CASE
            WHEN p.authority LIKE '%]' OR instr(p.authority, ':') = 0
                THEN CASE p.scheme WHEN 'https' THEN ':443' ELSE ':80' END
            ELSE ''
        END
        || p.path
    FROM parts AS p
    WHERE p.batch_id = batch_lanes.batch_id
)
WHERE batch_id IN (SELECT batch_id FROM parts);
UPDATE leases
SET upstream = (
    SELECT l.upstream FROM batch_lanes AS l
    WHERE l.batch_id = leases.batch_id AND l.lane = leases.lane
)
WHERE EXISTS (
    SELECT 1 FROM batch_lanes AS l WHERE l.batch_id = leases.batch_id AND l.lane = leases.lane
);

-- A floor: an older build claims without asking for the upstream, and would send lines to whatever host
-- its process knows. Its statements name ready_at: under another name they fail instead.
DROP INDEX batch_lanes_ready_idx;
ALTER TABLE batch_lanes RENAME COLUMN ready_at TO claimable_at;
CREATE INDEX batch_lanes_ready_idx
    ON batch_lanes
        (upstream, target, owner, priority DESC, due, batch_id, lane, claimable_at)
    WHERE claimable_at IS NOT NULL;

-- What is known of an upstream. key_mark: a keyed hash of its key and secret headers, never the key.
CREATE TABLE upstreams (
    upstream TEXT NOT NULL PRIMARY KEY,
    base_url TEXT NOT NULL,
    key_mark TEXT NOT NULL
) STRICT, WITHOUT ROWID;
-- The secret of this database that those marks are made with.
CREATE TABLE mark_secret (
    id     INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    secret BLOB    NOT NULL
) STRICT;
INSERT INTO mark_secret (id, secret) VALUES (1, randomblob(32));
