-- Where messages lie, in the order given; WR409 unless all are there. Each is looked up by its key, whatever the planner
-- believes of the table: it may have been empty when it was counted last, and a join would then read all of it.
-- Behind partition/fence, so nobody else moves them but another commit of the same instance whose end nobody has heard of:
-- so whoever changes what lies there counts what it changed.
CREATE FUNCTION {fn}.places(m_partition int[], m_stream bigint[], m_position bigint[])
RETURNS tid[] LANGUAGE plpgsql SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_places tid[] := ARRAY(
        SELECT x.ctid
          FROM unnest(m_partition, m_stream, m_position) WITH ORDINALITY u(partition, stream_no, position, i)
         CROSS JOIN LATERAL (SELECT m.ctid FROM windrow.messages m WHERE m.partition = u.partition
                                AND m.stream_no = u.stream_no AND m.position = u.position LIMIT 1) x
         ORDER BY u.i);
BEGIN /* message/places */
    IF cardinality(v_places) <> cardinality(m_stream) THEN
        RAISE EXCEPTION 'a message is gone' USING ERRCODE = 'WR409';
    END IF;
    RETURN v_places;
END $$;
