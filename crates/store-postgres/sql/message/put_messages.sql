-- Puts messages at the ends of their streams. WR412 before the set-up; WR409 when an id was used for something else.
-- Locks streams (sorted by bytes, as given), then ids (the same), each row held to the commit: positions are given in
-- commit order, and of two with the same id one waits for the other. A repeated id leaves a gap in its stream.
-- s_: streams, with how many messages each gets, and the hash that a new one's partition follows from. m_: messages; stream: which of them, from 1; back: how many of the same
-- stream come behind. d_: ids that count once; m: which message. The answer has the end of every stream, and repeats.
CREATE FUNCTION {fn}.put_messages(
    p_now timestamptz, s_owner text[], s_queue smallint[], s_name text[], s_n int[], s_hash bigint[],
    m_stream int[], m_back int[], m_id text[], m_kind text[], m_payload bytea[], m_headers text[],
    m_not_before timestamptz[], m_waiting text[],
    d_m int[], d_owner text[], d_id text[], d_digest bytea[],
    OUT o_stream bigint[], OUT o_partition int[], OUT o_position bigint[],
    OUT r_m int[], OUT r_stream bigint[], OUT r_partition int[], OUT r_position bigint[]
) LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    v_now   timestamptz := coalesce(p_now, clock_timestamp());
    v_count int;
    v_new   int;
    v_other text;
BEGIN /* message/put_messages */
    r_m := '{}';
    SELECT partitions INTO v_count FROM windrow.message_setup WHERE one;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'messages are not set up here' USING ERRCODE = 'WR412';
    END IF;
    WITH put AS (
        INSERT INTO windrow.streams AS s (owner, queue, name, partition, position, touched_at)
        SELECT u.owner, u.queue, u.name, (u.hash % v_count)::int, u.n, v_now
          FROM unnest(s_owner, s_queue, s_name, s_n, s_hash) WITH ORDINALITY u(owner, queue, name, n, hash, i) ORDER BY u.i
        ON CONFLICT (owner, queue, name) DO UPDATE
           SET position = s.position + excluded.position, touched_at = excluded.touched_at
        RETURNING s.owner, s.queue, s.name, s.no, s.partition, s.position
    )
    SELECT array_agg(o.no), array_agg(o.partition), array_agg(o.position) INTO o_stream, o_partition, o_position
      FROM (SELECT * FROM put ORDER BY owner COLLATE "C", queue, name COLLATE "C") o;
    v_now := coalesce(p_now, clock_timestamp());

    IF cardinality(d_m) > 0 THEN
        INSERT INTO windrow.message_ids (owner, id, digest, partition, stream_no, position, seen_at)
        SELECT d.owner, d.id, d.digest, o_partition[m_stream[d.m]], o_stream[m_stream[d.m]],
               o_position[m_stream[d.m]] - m_back[d.m], v_now
          FROM unnest(d_m, d_owner, d_id, d_digest) WITH ORDINALITY d(m, owner, id, digest, i) ORDER BY d.i
        ON CONFLICT (owner, id) DO NOTHING;
        GET DIAGNOSTICS v_new = ROW_COUNT;
        IF v_new < cardinality(d_m) THEN
            SELECT coalesce(array_agg(d.m), '{}'), array_agg(x.stream_no), array_agg(x.partition), array_agg(x.position),
                   min(d.id) FILTER (WHERE x.digest <> d.digest)
              INTO r_m, r_stream, r_partition, r_position, v_other
              FROM unnest(d_m, d_owner, d_id, d_digest) d(m, owner, id, digest)
              JOIN windrow.message_ids x ON x.owner = d.owner AND x.id = d.id
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
