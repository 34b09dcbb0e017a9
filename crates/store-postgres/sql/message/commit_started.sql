-- Says that these messages begin, in these epochs: the try counts now. WR409 unless all are there. Calls among them are
-- being processed. Behind partition/fence and call/lock_calls.
CREATE FUNCTION {fn}.commit_started(
    p_now timestamptz, p_instance uuid, m_partition int[], m_stream bigint[], m_position bigint[], m_epoch bigint[]
) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_places tid[] := {fn}.places(m_partition, m_stream, m_position);
    v_n      int;
BEGIN /* message/commit_started */
    UPDATE windrow.messages m SET attempts = m.attempts + 1, started = u.epoch
      FROM unnest(v_places, m_epoch) u(place, epoch) WHERE m.ctid = u.place;
    GET DIAGNOSTICS v_n = ROW_COUNT;
    IF v_n <> cardinality(m_stream) THEN
        RAISE EXCEPTION 'a message that begins has changed' USING ERRCODE = 'WR409';
    END IF;
    v_places := {fn}.places_of_calls(m_partition, m_stream, m_position);
    UPDATE windrow.calls c SET state = 1, instance = p_instance, updated_at = coalesce(p_now, clock_timestamp())
     WHERE c.ctid = ANY (v_places);
END $$;
