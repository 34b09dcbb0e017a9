-- Says which consumers are done with which messages; those that are left have no tries behind them, and a message that
-- waits for nobody any more ends. WR409 when a message is gone, or a consumer is not waited for. Behind partition/fence.
CREATE FUNCTION {fn}.commit_consumed(m_partition int[], m_stream bigint[], m_position bigint[], m_consumer text[])
RETURNS void LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    v record;
BEGIN /* message/commit_consumed */
    FOR v IN SELECT partition, stream_no, position, array_agg(consumer) AS consumers
               FROM unnest(m_partition, m_stream, m_position, m_consumer) u(partition, stream_no, position, consumer)
              GROUP BY partition, stream_no, position ORDER BY 1, 2, 3 LOOP
        UPDATE windrow.messages m
           SET waiting = ARRAY(SELECT w FROM unnest(m.waiting) w WHERE w <> ALL (v.consumers)), attempts = 0, started = NULL
         WHERE m.partition = v.partition AND m.stream_no = v.stream_no AND m.position = v.position
           AND m.waiting @> v.consumers;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'a message is gone, or does not wait for %', v.consumers USING ERRCODE = 'WR409';
        END IF;
        DELETE FROM windrow.messages m
         WHERE m.partition = v.partition AND m.stream_no = v.stream_no AND m.position = v.position AND m.waiting = '{}';
    END LOOP;
END $$;
