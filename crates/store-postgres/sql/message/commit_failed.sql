-- Leaves messages to be tried again; WR409 unless all are there. Calls among them wait again. A try that was begun has
-- been counted. Behind partition/fence and call/lock_calls. p_history_max: failures that a message remembers.
CREATE FUNCTION {fn}.commit_failed(
    p_now timestamptz, p_history_max int, m_partition int[], m_stream bigint[], m_position bigint[], m_error text[],
    m_not_before timestamptz[], m_waiting text[], m_counts boolean[]
) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    v_now    timestamptz := coalesce(p_now, clock_timestamp());
    v_micros bigint := (extract(epoch FROM v_now) * 1000000)::bigint;
    v_id     text;
BEGIN /* message/commit_failed */
    FOR i IN 1 .. cardinality(m_stream) LOOP
        UPDATE windrow.messages m
           SET attempts = m.attempts + (m_counts[i] AND m.started IS NULL)::int, started = NULL, error = m_error[i],
               not_before = m_not_before[i],
               waiting = CASE WHEN m_waiting[i] IS NULL THEN m.waiting
                              ELSE ARRAY(SELECT jsonb_array_elements_text(m_waiting[i]::jsonb)) END,
               history = CASE WHEN jsonb_array_length(m.history) >= p_history_max THEN m.history - 0
                              ELSE coalesce(m.history, '[]') END
                         || jsonb_build_array(jsonb_build_array(v_micros, m_error[i]))
         WHERE m.partition = m_partition[i] AND m.stream_no = m_stream[i] AND m.position = m_position[i]
        RETURNING m.id INTO v_id;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'a message that failed is gone' USING ERRCODE = 'WR409';
        END IF;
        UPDATE windrow.calls c SET state = 0, updated_at = v_now
         WHERE c.owner = (SELECT s.owner FROM windrow.streams s WHERE s.no = m_stream[i] AND s.queue = 2)
           AND c.request_id = v_id AND c.state < 2;
    END LOOP;
END $$;
