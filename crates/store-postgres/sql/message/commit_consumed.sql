-- Says which consumers are done with which messages; those that are left have no tries behind them, and a message that
-- waits for nobody any more ends. WR409 when a message is gone, or a consumer is not waited for. Behind partition/fence.
CREATE FUNCTION {fn}.commit_consumed(m_partition int[], m_stream bigint[], m_position bigint[], m_consumer text[])
RETURNS void LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_places tid[] := {fn}.places(m_partition, m_stream, m_position);
    v_ended  int;
    v_left   int;
BEGIN /* message/commit_consumed */
    DELETE FROM windrow.messages m
     USING (SELECT u.place, array_agg(u.consumer) AS consumers
              FROM unnest(v_places, m_consumer) u(place, consumer) GROUP BY u.place) u
     WHERE m.ctid = u.place AND m.waiting @> u.consumers AND m.waiting <@ u.consumers;
    GET DIAGNOSTICS v_ended = ROW_COUNT;
    UPDATE windrow.messages m
       SET waiting = ARRAY(SELECT w FROM unnest(m.waiting) w WHERE w <> ALL (u.consumers)), attempts = 0, started = NULL
      FROM (SELECT u.place, array_agg(u.consumer) AS consumers
              FROM unnest(v_places, m_consumer) u(place, consumer) GROUP BY u.place) u
     WHERE m.ctid = u.place AND m.waiting @> u.consumers;
    GET DIAGNOSTICS v_left = ROW_COUNT;
    IF v_ended + v_left <> (SELECT count(DISTINCT place) FROM unnest(v_places) place) THEN
        RAISE EXCEPTION 'a message is gone, or does not wait for its consumer' USING ERRCODE = 'WR409';
    END IF;
END $$;
