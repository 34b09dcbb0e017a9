-- A lane belongs to its upstream: no process that serves another claims lines of it. '' is a program's own executor,
-- '?' an upstream that was not known when the batch was made; the first claim binds it.
ALTER TABLE windrow.batch_lanes ADD COLUMN upstream text NOT NULL DEFAULT '?';
ALTER TABLE windrow.leases ADD COLUMN upstream text NOT NULL DEFAULT '?';

-- What `windrow run` began goes on to the URL that it was begun for, and to no other: scheme, host, explicit port, path
-- without its last slash. The stored URL was normalised before.
UPDATE windrow.batch_lanes l
   SET upstream = u.parts[1] || '://' || u.parts[2]
               || coalesce(u.parts[3], CASE u.parts[1] WHEN 'https' THEN ':443' ELSE ':80' END)
               || rtrim(coalesce(u.parts[4], ''), '/')
  FROM windrow.batches b
 CROSS JOIN LATERAL (SELECT regexp_match(b.metadata::json ->> 'to',
                            '^(https?)://(\[[^]/]*\]|[^/:]*)(:[0-9]+)?(/.*)?$') AS parts) u
 WHERE l.batch_id = b.id AND b.job_type = 'run' AND u.parts IS NOT NULL;
UPDATE windrow.leases s SET upstream = l.upstream
  FROM windrow.batch_lanes l WHERE l.batch_id = s.batch_id AND l.lane = s.lane;
ALTER TABLE windrow.batch_lanes ALTER COLUMN upstream DROP DEFAULT;
ALTER TABLE windrow.leases ALTER COLUMN upstream DROP DEFAULT;

DROP INDEX windrow.lanes_ready;
CREATE INDEX lanes_ready ON windrow.batch_lanes (upstream, target, owner, priority DESC, deadline, batch_id, lane)
    WHERE ready_at IS NOT NULL;

-- What is known of an upstream. key_mark: a keyed hash of its key and secret headers, never the key.
CREATE TABLE windrow.upstreams (
    upstream text PRIMARY KEY,
    base_url text NOT NULL,
    key_mark text NOT NULL
);
-- The secret of this database that those marks are made with.
CREATE TABLE windrow.mark_secret (
    id     int PRIMARY KEY CHECK (id = 1),
    secret bytea NOT NULL
);
INSERT INTO windrow.mark_secret
SELECT 1, sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));

-- A floor: the functions of older builds claim without asking for the upstream, and would send lines to whatever host
-- their process knows. A process of such a build that still runs fails instead.
DO $$
DECLARE
    v_schema text;
BEGIN
    FOR v_schema IN SELECT nspname FROM pg_namespace WHERE nspname LIKE 'windrow\_fn\_%' LOOP
        EXECUTE format('DROP SCHEMA %I CASCADE', v_schema);
    END LOOP;
END $$;
