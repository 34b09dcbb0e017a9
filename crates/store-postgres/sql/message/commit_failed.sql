-- Leaves messages to be tried again; WR409 unless all are there. Calls among them wait again. A try that was begun has
-- been counted. Behind partition/fence and call/lock_calls. p_history_max: failures that a message remembers.
CREATE FUNCTION {fn}.commit_failed(
    p_now timestamptz, p_history_max int, m_partition int[], m_stream bigint[], m_position bigint[], m_error text[],
    m_not_before timestamptz[], m_waiting text[], m_counts boolean[]
) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    v_now    timestamptz := coalesce(p_now, clock_timestamp());
    v_micros bigint := (extract(epoch FROM v_now) * 1000000)::bigint;
    v_n      int;
    v_owners text[];
    v_ids    text[];
BEGIN /* message/commit_failed */
    WITH back AS (
        UPDATE windrow.messages m
           SET attempts = m.attempts + (u.counts AND m.started IS NULL)::int, started = NULL, error = u.error,
               not_before = u.not_before,
               waiting = CASE WHEN u.waiting IS NULL THEN m.waiting
                              ELSE ARRAY(SELECT jsonb_array_elements_text(u.waiting::jsonb)) END,
               history = CASE WHEN jsonb_array_length(m.history) >= p_history_max THEN m.history - 0
                              ELSE coalesce(m.history, '[]') END
                         || jsonb_build_array(jsonb_build_array(v_micros, u.error))
          FROM unnest(m_partition, m_stream, m_position, m_error, m_not_before, m_waiting, m_counts)
               u(partition, stream_no, position, error, not_before, waiting, counts)
         WHERE m.partition = u.partition AND m.stream_no = u.stream_no AND m.position = u.position
        RETURNING m.stream_no, m.id
    )
    SELECT count(*), array_agg(s.owner) FILTER (WHERE s.queue = 2), array_agg(b.id) FILTER (WHERE s.queue = 2)
      INTO v_n, v_owners, v_ids
      FROM back b JOIN windrow.streams s ON s.no = b.stream_no;
    IF v_n <> cardinality(m_stream) THEN
        RAISE EXCEPTION 'a message that failed is gone' USING ERRCODE = 'WR409';
    END IF;
    IF v_ids IS NOT NULL THEN
        UPDATE windrow.calls c SET state = 0, updated_at = v_now
          FROM unnest(v_owners, v_ids) u(owner, id)
         WHERE c.owner = u.owner AND c.request_id = u.id AND c.state < 2;
    END IF;
END $$;
