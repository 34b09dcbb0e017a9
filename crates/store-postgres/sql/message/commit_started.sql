-- Says that these messages begin, in these epochs: the try counts now. WR409 unless all are there. Calls among them are
-- being processed. Behind partition/fence and call/lock_calls.
CREATE FUNCTION {fn}.commit_started(
    p_now timestamptz, p_instance uuid, m_partition int[], m_stream bigint[], m_position bigint[], m_epoch bigint[]
) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    v_n      int;
    v_owners text[];
    v_ids    text[];
BEGIN /* message/commit_started */
    WITH begun AS (
        UPDATE windrow.messages m SET attempts = m.attempts + 1, started = u.epoch
          FROM unnest(m_partition, m_stream, m_position, m_epoch) u(partition, stream_no, position, epoch)
         WHERE m.partition = u.partition AND m.stream_no = u.stream_no AND m.position = u.position
        RETURNING m.stream_no, m.id
    )
    SELECT count(*), array_agg(s.owner) FILTER (WHERE s.queue = 2), array_agg(b.id) FILTER (WHERE s.queue = 2)
      INTO v_n, v_owners, v_ids
      FROM begun b JOIN windrow.streams s ON s.no = b.stream_no;
    IF v_n <> cardinality(m_stream) THEN
        RAISE EXCEPTION 'a message that begins is gone' USING ERRCODE = 'WR409';
    END IF;
    IF v_ids IS NOT NULL THEN
        UPDATE windrow.calls c
           SET state = 1, instance = p_instance, updated_at = coalesce(p_now, clock_timestamp())
          FROM unnest(v_owners, v_ids) u(owner, id)
         WHERE c.owner = u.owner AND c.request_id = u.id AND c.state < 2;
    END IF;
END $$;
