-- Leaves messages to be tried again; WR409 unless all are there. Calls among them wait again. A try that was begun has
-- been counted; that is taken back when it is not to count. Behind partition/fence and call/lock_calls. p_history_max: failures that a message remembers.
CREATE FUNCTION {fn}.commit_failed(
    p_now timestamptz, p_history_max int, m_partition int[], m_stream bigint[], m_position bigint[], m_error text[],
    m_not_before timestamptz[], m_waiting text[], m_counts boolean[]
) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_now    timestamptz := coalesce(p_now, clock_timestamp());
    v_micros bigint := (extract(epoch FROM v_now) * 1000000)::bigint;
    v_places tid[] := {fn}.places(m_partition, m_stream, m_position);
    v_n      int;
BEGIN /* message/commit_failed */
    UPDATE windrow.messages m
       SET attempts = m.attempts + CASE WHEN u.counts THEN (m.started IS NULL)::int ELSE -(m.started IS NOT NULL)::int END,
           started = NULL, error = u.error, not_before = u.not_before,
           waiting = CASE WHEN u.waiting IS NULL THEN m.waiting
                          ELSE ARRAY(SELECT jsonb_array_elements_text(u.waiting::jsonb)) END,
           history = CASE WHEN jsonb_array_length(m.history) >= p_history_max THEN m.history - 0
                          ELSE coalesce(m.history, '[]') END
                     || jsonb_build_array(jsonb_build_array(v_micros, u.error))
      FROM unnest(v_places, m_error, m_not_before, m_waiting, m_counts) u(place, error, not_before, waiting, counts)
     WHERE m.ctid = u.place;
    GET DIAGNOSTICS v_n = ROW_COUNT;
    IF v_n <> cardinality(m_stream) THEN
        RAISE EXCEPTION 'a message that failed has changed' USING ERRCODE = 'WR409';
    END IF;
    v_places := {fn}.places_of_calls(m_partition, m_stream, m_position);
    UPDATE windrow.calls c SET state = 0, updated_at = v_now WHERE c.ctid = ANY (v_places);
END $$;
