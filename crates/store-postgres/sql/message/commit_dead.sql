-- Moves messages to the dead letters; WR409 unless all are there, WR400 for a call's. Behind partition/fence.
CREATE FUNCTION {fn}.commit_dead(
    p_now timestamptz, m_partition int[], m_stream bigint[], m_position bigint[], m_dead uuid[], m_error text[]
) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN /* message/commit_dead */
    IF EXISTS (SELECT 1 FROM windrow.streams WHERE no = ANY (m_stream) AND queue = 2) THEN
        RAISE EXCEPTION 'a call fails, and is no dead letter' USING ERRCODE = 'WR400';
    END IF;
    FOR i IN 1 .. cardinality(m_stream) LOOP
        WITH gone AS (
            DELETE FROM windrow.messages m
             WHERE m.partition = m_partition[i] AND m.stream_no = m_stream[i] AND m.position = m_position[i]
            RETURNING m.*
        )
        INSERT INTO windrow.dead_letters
               (id, owner, queue, stream, partition, stream_no, position, message_id, kind, payload, headers, sent_at,
                attempts, waiting, history, error, dead_at)
        SELECT m_dead[i], s.owner, s.queue, s.name, g.partition, g.stream_no, g.position, g.id, g.kind, g.payload, g.headers,
               g.sent_at, g.attempts, g.waiting, g.history, m_error[i], coalesce(p_now, clock_timestamp())
          FROM gone g JOIN windrow.streams s ON s.no = g.stream_no;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'a message that is given up on is gone' USING ERRCODE = 'WR409';
        END IF;
    END LOOP;
END $$;
