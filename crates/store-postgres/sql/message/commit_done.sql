-- Ends messages; WR409 unless all are there. Behind partition/fence.
CREATE FUNCTION {fn}.commit_done(m_partition int[], m_stream bigint[], m_position bigint[])
RETURNS void LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_places tid[] := {fn}.places(m_partition, m_stream, m_position);
    v_n      int;
BEGIN /* message/commit_done */
    DELETE FROM windrow.messages m WHERE m.ctid = ANY (v_places);
    GET DIAGNOSTICS v_n = ROW_COUNT;
    IF v_n <> cardinality(m_stream) THEN
        RAISE EXCEPTION 'a message that is done is gone' USING ERRCODE = 'WR409';
    END IF;
END $$;
