-- Shows calls that run for long as processed by this instance, each only while its message is as the runner read it: one
-- that is answered or was put off is left as it is. Behind partition/fence and call/lock_calls.
CREATE FUNCTION {fn}.commit_running(
    p_now timestamptz, p_instance uuid, m_partition int[], m_stream bigint[], m_position bigint[], m_attempts int[],
    m_not_before timestamptz[]
) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan AS $$
BEGIN /* call/commit_running */
    UPDATE windrow.calls c SET state = 1, instance = p_instance, updated_at = coalesce(p_now, clock_timestamp())
      FROM unnest(m_partition, m_stream, m_position, m_attempts, m_not_before)
               u(partition, stream_no, position, attempts, not_before)
     CROSS JOIN LATERAL (
        SELECT s.owner, m.id FROM windrow.messages m JOIN windrow.streams s ON s.no = m.stream_no AND s.queue = 2
         WHERE m.partition = u.partition AND m.stream_no = u.stream_no AND m.position = u.position
           AND m.attempts = u.attempts AND m.not_before IS NOT DISTINCT FROM u.not_before LIMIT 1) x
     WHERE c.owner = x.owner AND c.request_id = x.id AND c.state < 2;
END $$;
