-- Puts messages at the ends of their streams. WR412 before the set-up; WR409 when an id was used for something else.
-- Makes the streams that are not there, and only then locks all (both sorted by bytes, as given), then ids (the same), each
-- row held to the commit: positions are drawn in commit order, and of two with the same id one waits for the other.
-- Positions rise along a stream and have gaps.
-- s_: streams, with how many messages each gets, the hash that a new one's partition follows from, and their numbers:
-- null, or all of them, by a caller who has seen them before; WR424 when one is not there any more. m_: messages; stream:
-- which of them, from 1; back: how many of the same stream come behind. headers, not_before, waiting: null when no message has one. d_: ids that count once; m: which message.
-- The answer has the end of every stream, and repeats.
CREATE FUNCTION {fn}.put_messages(
    p_now timestamptz, s_owner text[], s_queue smallint[], s_name text[], s_n int[], s_hash bigint[], s_no bigint[],
    m_stream int[], m_back int[], m_id text[], m_kind text[], m_payload bytea[], m_headers text[],
    m_not_before timestamptz[], m_waiting text[],
    d_m int[], d_owner text[], d_queue smallint[], d_id text[], d_digest bytea[],
    OUT o_stream bigint[], OUT o_partition int[], OUT o_position bigint[],
    OUT r_m int[], OUT r_stream bigint[], OUT r_partition int[], OUT r_position bigint[]
) LANGUAGE plpgsql SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_now   timestamptz := coalesce(p_now, clock_timestamp());
    v_count int;
    v_new   int;
    v_base  bigint;
    v_touched timestamptz;
    v_other text;
BEGIN /* message/put_messages */
    r_m := '{}';
    SELECT partitions INTO v_count FROM windrow.message_setup WHERE one;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'messages are not set up here' USING ERRCODE = 'WR412';
    END IF;
    IF s_no IS NOT NULL THEN
        SELECT array_agg(x.no), array_agg(x.partition), min(x.touched_at) INTO o_stream, o_partition, v_touched
          FROM unnest(s_no, s_owner, s_queue, s_name) u(no, owner, queue, name)
         CROSS JOIN LATERAL (SELECT s.no, s.partition, s.touched_at FROM windrow.streams s
                              WHERE s.no = u.no AND s.owner = u.owner AND s.queue = u.queue AND s.name = u.name
                                FOR UPDATE) x;
        IF cardinality(o_stream) IS DISTINCT FROM cardinality(s_no) THEN
            RAISE EXCEPTION 'a stream is not what it was' USING ERRCODE = 'WR424';
        END IF;
    ELSE
        INSERT INTO windrow.streams (owner, queue, name, partition, touched_at)
        SELECT u.owner, u.queue, u.name, (u.hash % v_count)::int, v_now
          FROM unnest(s_owner, s_queue, s_name, s_hash) WITH ORDINALITY u(owner, queue, name, hash, i)
         WHERE (SELECT s.no FROM windrow.streams s
                 WHERE s.owner = u.owner AND s.queue = u.queue AND s.name = u.name LIMIT 1) IS NULL
         ORDER BY u.i
        ON CONFLICT (owner, queue, name) DO NOTHING;
        SELECT array_agg(x.no), array_agg(x.partition), min(x.touched_at) INTO o_stream, o_partition, v_touched
          FROM unnest(s_owner, s_queue, s_name) u(owner, queue, name)
         CROSS JOIN LATERAL (SELECT s.no, s.partition, s.touched_at FROM windrow.streams s
                              WHERE s.owner = u.owner AND s.queue = u.queue AND s.name = u.name FOR UPDATE) x;
    END IF;
    IF cardinality(o_stream) IS DISTINCT FROM cardinality(s_name) THEN
        RAISE EXCEPTION 'a stream was forgotten at this moment' USING ERRCODE = '40001';
    END IF;
    -- Behind the locks: who comes later draws a greater number.
    v_base := nextval('windrow.message_positions') * 1024;
    o_position := ARRAY(SELECT v_base + n FROM unnest(s_n) n);
    v_now := coalesce(p_now, clock_timestamp());
    IF v_touched < v_now - interval '10 minutes' THEN
        UPDATE windrow.streams s SET touched_at = v_now WHERE s.no = ANY (o_stream);
    END IF;

    IF cardinality(d_m) > 0 THEN
        INSERT INTO windrow.message_ids (owner, queue, id, digest, partition, stream_no, position, seen_at)
        SELECT d.owner, d.queue, d.id, d.digest, o_partition[m_stream[d.m]], o_stream[m_stream[d.m]],
               o_position[m_stream[d.m]] - m_back[d.m], v_now
          FROM unnest(d_m, d_owner, d_queue, d_id, d_digest) WITH ORDINALITY d(m, owner, queue, id, digest, i) ORDER BY d.i
        ON CONFLICT (owner, queue, id) DO NOTHING;
        GET DIAGNOSTICS v_new = ROW_COUNT;
        IF v_new < cardinality(d_m) THEN
            SELECT coalesce(array_agg(d.m), '{}'), array_agg(x.stream_no), array_agg(x.partition), array_agg(x.position),
                   min(d.id) FILTER (WHERE x.digest <> d.digest)
              INTO r_m, r_stream, r_partition, r_position, v_other
              FROM unnest(d_m, d_owner, d_queue, d_id, d_digest) d(m, owner, queue, id, digest)
             CROSS JOIN LATERAL (SELECT * FROM windrow.message_ids k
                                  WHERE k.owner = d.owner AND k.queue = d.queue AND k.id = d.id LIMIT 1) x
             WHERE (x.stream_no, x.position) <> (o_stream[m_stream[d.m]], o_position[m_stream[d.m]] - m_back[d.m]);
            IF v_other IS NOT NULL THEN
                RAISE EXCEPTION 'message id % was used for another message', v_other USING ERRCODE = 'WR409';
            ELSIF v_new + cardinality(r_m) <> cardinality(d_m) THEN
                RAISE EXCEPTION 'an id was forgotten at this moment' USING ERRCODE = '40001';
            END IF;
        END IF;
    END IF;

    INSERT INTO windrow.messages
           (partition, stream_no, position, id, kind, payload, headers, sent_at, not_before, waiting)
    SELECT o_partition[m.stream], o_stream[m.stream], o_position[m.stream] - m.back, m.id, m.kind, m.payload,
           m.headers::jsonb, v_now, m.not_before,
           CASE WHEN m.waiting IS NOT NULL THEN ARRAY(SELECT jsonb_array_elements_text(m.waiting::jsonb)) END
      FROM unnest(m_stream, m_back, m_id, m_kind, m_payload, m_headers, m_not_before, m_waiting)
           WITH ORDINALITY m(stream, back, id, kind, payload, headers, not_before, waiting, i)
     WHERE m.i <> ALL (r_m);
    PERFORM {fn}.wake(o_partition);
END $$;
