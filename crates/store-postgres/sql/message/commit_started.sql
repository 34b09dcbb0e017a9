-- Says that these messages begin, in these epochs: the try counts now. WR409 unless all are there. Calls among them are
-- being processed. Behind partition/fence and call/lock_calls.
CREATE FUNCTION {fn}.commit_started(
    p_now timestamptz, p_instance uuid, m_partition int[], m_stream bigint[], m_position bigint[], m_epoch bigint[]
) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_places tid[] := {fn}.places(m_partition, m_stream, m_position);
BEGIN /* message/commit_started */
    WITH begun AS (
        UPDATE windrow.messages m SET attempts = m.attempts + 1, started = u.epoch
          FROM unnest(v_places, m_epoch) u(place, epoch) WHERE m.ctid = u.place
        RETURNING m.stream_no, m.id
    )
    UPDATE windrow.calls c SET state = 1, instance = p_instance, updated_at = coalesce(p_now, clock_timestamp())
      FROM begun b JOIN windrow.streams s ON s.no = b.stream_no AND s.queue = 2
     WHERE c.owner = s.owner AND c.request_id = b.id AND c.state < 2;
END $$;
