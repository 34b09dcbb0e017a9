-- Where the calls of these messages lie that have no answer yet; messages that are no calls have none. Looked up by key like
-- message/places; under the collation of streams, the key of calls would be no use, and
-- state + 0 hides the index by state. Behind call/lock_calls, so nobody else moves them.
CREATE FUNCTION {fn}.places_of_calls(m_partition int[], m_stream bigint[], m_position bigint[])
RETURNS tid[] LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan AS $$
BEGIN /* call/places_of_calls */
    RETURN ARRAY(
        SELECT c.ctid
          FROM unnest(m_partition, m_stream, m_position) u(partition, stream_no, position)
         CROSS JOIN LATERAL (SELECT k.owner COLLATE "default" AS owner FROM windrow.streams k WHERE k.no = u.stream_no AND k.queue = 2 LIMIT 1) s
         CROSS JOIN LATERAL (SELECT k.id FROM windrow.messages k WHERE k.partition = u.partition
                                AND k.stream_no = u.stream_no AND k.position = u.position LIMIT 1) m
         CROSS JOIN LATERAL (SELECT k.ctid FROM windrow.calls k
                              WHERE k.owner = s.owner AND k.request_id = m.id AND k.state + 0 < 2 LIMIT 1) c);
END $$;
