-- Says that these messages begin, in these epochs: the try counts now. WR409 unless all are there. Calls among them are
-- being processed. Behind partition/fence and call/lock_calls.
CREATE FUNCTION {fn}.commit_started(
    p_now timestamptz, p_instance uuid, m_partition int[], m_stream bigint[], m_position bigint[], m_epoch bigint[]
) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    v_id text;
BEGIN /* message/commit_started */
    FOR i IN 1 .. cardinality(m_stream) LOOP
        UPDATE windrow.messages m SET attempts = m.attempts + 1, started = m_epoch[i]
         WHERE m.partition = m_partition[i] AND m.stream_no = m_stream[i] AND m.position = m_position[i]
        RETURNING m.id INTO v_id;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'a message that begins is gone' USING ERRCODE = 'WR409';
        END IF;
        UPDATE windrow.calls c
           SET state = 1, instance = p_instance, updated_at = coalesce(p_now, clock_timestamp())
         WHERE c.owner = (SELECT s.owner FROM windrow.streams s WHERE s.no = m_stream[i] AND s.queue = 2)
           AND c.request_id = v_id AND c.state < 2;
    END LOOP;
END $$;
