-- Appends events at the ends of their streams. WR419 when a stream is at another version than expected; its detail says
-- which. An append that is there already, with the same ids behind the expected version, gives the same answer.
-- Locks streams (sorted by bytes, as given), held to the commit. s_: streams, with how many events each gets.
-- a_: appends; stream: which of them, from 1; before: how many events of the same stream are appended before it; expected: null for any.
-- e_: events, in the order of the appends; append: which of them; at: their place in the append, from 1.
-- The answer has the version behind which each append begins.
CREATE FUNCTION {fn}.append_events(
    p_now timestamptz, s_owner text[], s_name text[], s_n int[],
    a_stream int[], a_before int[], a_n int[], a_expected bigint[],
    e_append int[], e_at int[], e_id text[], e_kind text[], e_payload bytea[], e_headers text[],
    OUT o_first bigint[]
) LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_now  timestamptz;
    v_base bigint[];
    v_xid  xid8[];
    v_is   boolean;
    s      int;
BEGIN /* event/append_events */
    WITH put AS (
        INSERT INTO windrow.event_streams AS s (owner, stream, version, feed_xid)
        SELECT u.owner, u.name, u.n, pg_current_xact_id()
          FROM unnest(s_owner, s_name, s_n) WITH ORDINALITY u(owner, name, n, i) ORDER BY u.i
        ON CONFLICT (owner, stream) DO UPDATE
           SET version = s.version + excluded.version, feed_xid = greatest(s.feed_xid, excluded.feed_xid)
        RETURNING s.owner, s.stream, s.version, s.feed_xid
    )
    SELECT array_agg(o.version), array_agg(o.feed_xid) INTO v_base, v_xid
      FROM (SELECT * FROM put ORDER BY owner COLLATE "C", stream COLLATE "C") o;
    v_now := coalesce(p_now, clock_timestamp());
    SELECT array_agg(b.version - n.n ORDER BY b.i) INTO v_base
      FROM unnest(v_base) WITH ORDINALITY b(version, i) JOIN unnest(s_n) WITH ORDINALITY n(n, i) ON n.i = b.i;
    SELECT array_agg(v_base[a.stream] + a.before ORDER BY a.i),
           coalesce(bool_and(v_base[a.stream] + a.before = a.expected), true)
      INTO o_first, v_is
      FROM unnest(a_stream, a_before, a_expected) WITH ORDINALITY a(stream, before, expected, i);
    IF NOT v_is THEN
        -- Not as expected: one after the other, to tell a repeat from a conflict.
        FOR i IN 1 .. cardinality(a_stream) LOOP
            s := a_stream[i];
            o_first[i] := v_base[s];
            IF a_expected[i] <> v_base[s] THEN
                SELECT count(*) = a_n[i] INTO v_is
                  FROM unnest(e_append, e_at, e_id) u(append, at, id)
                 CROSS JOIN LATERAL (SELECT FROM windrow.events k WHERE k.owner = s_owner[s] AND k.stream = s_name[s]
                                        AND k.version = a_expected[i] + u.at AND k.id = u.id LIMIT 1) e
                 WHERE u.append = i;
                IF NOT v_is THEN
                    RAISE EXCEPTION 'stream % is at version %, not at % as expected', s_name[s], v_base[s], a_expected[i]
                        USING ERRCODE = 'WR419',
                              DETAIL = json_build_array(s_name[s], a_expected[i], v_base[s])::text;
                END IF;
                o_first[i] := a_expected[i];
            ELSE
                INSERT INTO windrow.events (owner, stream, version, id, kind, payload, headers, at, feed_xid)
                SELECT s_owner[s], s_name[s], v_base[s] + e.at, e.id, e.kind, e.payload, e.headers::jsonb, v_now, v_xid[s]
                  FROM unnest(e_append, e_at, e_id, e_kind, e_payload, e_headers) e(append, at, id, kind, payload, headers)
                 WHERE e.append = i ORDER BY e.at;
                v_base[s] := v_base[s] + a_n[i];
            END IF;
        END LOOP;
        UPDATE windrow.event_streams t SET version = u.version
          FROM (SELECT x.ctid AS place, u.version FROM unnest(s_owner, s_name, v_base) u(owner, name, version)
                 CROSS JOIN LATERAL (SELECT k.ctid FROM windrow.event_streams k
                                      WHERE k.owner = u.owner AND k.stream = u.name LIMIT 1) x) u
         WHERE t.ctid = u.place;
        RETURN;
    END IF;
    INSERT INTO windrow.events (owner, stream, version, id, kind, payload, headers, at, feed_xid)
    SELECT s_owner[a_stream[e.append]], s_name[a_stream[e.append]], o_first[e.append] + e.at, e.id, e.kind, e.payload,
           e.headers::jsonb, v_now, v_xid[a_stream[e.append]]
      FROM unnest(e_append, e_at, e_id, e_kind, e_payload, e_headers) WITH ORDINALITY
           e(append, at, id, kind, payload, headers, i) ORDER BY e.i;
END $$;
