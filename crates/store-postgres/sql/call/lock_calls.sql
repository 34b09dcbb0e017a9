-- Locks the calls of these keys, and those whose messages are at these places, all sorted by bytes: before anything else
-- that a commit locks, so that two that meet never wait for each other crosswise. Behind partition/fence.
CREATE FUNCTION {fn}.lock_calls(
    c_owner text[], c_request text[], m_partition int[], m_stream bigint[], m_position bigint[]
) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN /* call/lock_calls */
    PERFORM 1 FROM (
        SELECT u.owner, u.request FROM unnest(c_owner, c_request) u(owner, request)
        UNION
        SELECT s.owner, m.id FROM unnest(m_partition, m_stream, m_position) u(partition, stream_no, position)
          JOIN windrow.messages m
            ON m.partition = u.partition AND m.stream_no = u.stream_no AND m.position = u.position
          JOIN windrow.streams s ON s.no = m.stream_no AND s.queue = 2) k
      JOIN windrow.calls c ON c.owner = k.owner AND c.request_id = k.request
     ORDER BY c.owner COLLATE "C", c.request_id COLLATE "C" FOR UPDATE OF c;
END $$;
