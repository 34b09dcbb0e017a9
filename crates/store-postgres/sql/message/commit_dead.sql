-- Moves messages to the dead letters; WR409 unless all are there, WR400 for a call's. The last try is counted unless it is
-- not to count; one that was begun has been counted. Behind partition/fence.
CREATE FUNCTION {fn}.commit_dead(
    p_now timestamptz, m_partition int[], m_stream bigint[], m_position bigint[], m_dead uuid[], m_error text[],
    m_counts boolean[]
) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_places tid[] := {fn}.places(m_partition, m_stream, m_position);
    v_n      int;
BEGIN /* message/commit_dead */
    IF EXISTS (SELECT 1 FROM windrow.streams WHERE no = ANY (m_stream) AND queue = 2) THEN
        RAISE EXCEPTION 'a call fails, and is no dead letter' USING ERRCODE = 'WR400';
    END IF;
    WITH gone AS (
        DELETE FROM windrow.messages m USING unnest(v_places, m_dead, m_error, m_counts) u(place, dead, error, counts)
         WHERE m.ctid = u.place
        RETURNING m.*, u.dead, u.error AS last_error, u.counts
    )
    INSERT INTO windrow.dead_letters
           (id, owner, queue, stream, partition, stream_no, position, message_id, kind, payload, headers, sent_at,
            attempts, waiting, history, error, dead_at)
    SELECT g.dead, s.owner, s.queue, s.name, g.partition, g.stream_no, g.position, g.id, g.kind, g.payload, g.headers,
           g.sent_at,
           g.attempts + CASE WHEN g.counts THEN (g.started IS NULL)::int ELSE -(g.started IS NOT NULL)::int END, g.waiting, g.history, g.last_error, coalesce(p_now, clock_timestamp())
      FROM gone g CROSS JOIN LATERAL (SELECT * FROM windrow.streams k WHERE k.no = g.stream_no LIMIT 1) s;
    GET DIAGNOSTICS v_n = ROW_COUNT;
    IF v_n <> cardinality(m_stream) THEN
        RAISE EXCEPTION 'a message that is given up on has changed' USING ERRCODE = 'WR409';
    END IF;
END $$;
