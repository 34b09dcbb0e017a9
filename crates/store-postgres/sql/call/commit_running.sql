-- Shows calls that run for long as processed by this instance, each only while its message is as the runner read it: one
-- that is answered or was put off is left as it is. Behind partition/fence and call/lock_calls.
CREATE FUNCTION {fn}.commit_running(
    p_now timestamptz, p_instance uuid, m_partition int[], m_stream bigint[], m_position bigint[], m_attempts int[],
    m_not_before timestamptz[]
) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_places tid[] := ARRAY(
        SELECT c.ctid FROM unnest(m_partition, m_stream, m_position, m_attempts, m_not_before)
                   u(partition, stream_no, position, attempts, not_before)
         CROSS JOIN LATERAL (SELECT k.owner COLLATE "default" AS owner FROM windrow.streams k WHERE k.no = u.stream_no AND k.queue = 2 LIMIT 1) s
         CROSS JOIN LATERAL (SELECT k.id FROM windrow.messages k WHERE k.partition = u.partition
                                AND k.stream_no = u.stream_no AND k.position = u.position AND k.attempts = u.attempts
                                AND k.not_before IS NOT DISTINCT FROM u.not_before LIMIT 1) m
         CROSS JOIN LATERAL (SELECT k.ctid FROM windrow.calls k
                              WHERE k.owner = s.owner AND k.request_id = m.id AND k.state + 0 < 2 LIMIT 1) c);
BEGIN /* call/commit_running */
    UPDATE windrow.calls c SET state = 1, instance = p_instance, updated_at = coalesce(p_now, clock_timestamp())
     WHERE c.ctid = ANY (v_places);
END $$;
