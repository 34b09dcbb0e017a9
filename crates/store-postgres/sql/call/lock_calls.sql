-- Locks the calls of these keys, and those whose messages are at these places, all sorted by bytes: before anything else
-- that a commit locks, so that two that meet never wait for each other crosswise. Behind partition/fence.
CREATE FUNCTION {fn}.lock_calls(
    c_owner text[], c_request text[], m_partition int[], m_stream bigint[], m_position bigint[]
) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan AS $$
BEGIN /* call/lock_calls */
    PERFORM FROM (
        SELECT k.owner, k.request FROM (
            SELECT u.owner, u.request FROM unnest(c_owner, c_request) u(owner, request)
            UNION
            SELECT x.owner, x.id FROM unnest(m_partition, m_stream, m_position) u(partition, stream_no, position)
             CROSS JOIN LATERAL (
                SELECT s.owner COLLATE "default" AS owner, m.id FROM windrow.messages m JOIN windrow.streams s ON s.no = m.stream_no AND s.queue = 2
                 WHERE m.partition = u.partition AND m.stream_no = u.stream_no AND m.position = u.position LIMIT 1) x) k
         ORDER BY k.owner COLLATE "C", k.request COLLATE "C") k
     CROSS JOIN LATERAL (SELECT FROM windrow.calls c
                          WHERE c.owner = k.owner AND c.request_id = k.request FOR UPDATE) l;
END $$;
