-- Reads the partitions that are the instance's at these epochs, in the order given, and locks nothing. A partition is
-- walked stream by stream behind a_stream on the primary key, lazily: it ends with the last message there is room for, or
-- after 10,000 streams. Streams whose first message must wait are left out, unless the reader holds some of it; h_stream is sorted. Rows
-- of kind 0 are messages, 1 marks (stream_no: behind which to go on), 2 lost partitions, 3 the next time that one is due.
-- What is given is on disk when the transaction ends, whoever wrote it: a reader acts on it outside of this database.
-- STABLE: all of it is of one moment, which was before the first line of the function.
CREATE FUNCTION {fn}.read_owned(
    p_now timestamptz, p_instance uuid, f_no int[], f_epoch bigint[], f_after bigint[],
    h_stream bigint[], h_position bigint[], p_messages_max int, p_stream_max int
) RETURNS TABLE (
    what smallint, partition int, stream_no bigint, "position" bigint, queue smallint, owner text, stream text, id text,
    kind text, payload bytea, headers text, sent_at timestamptz, not_before timestamptz, attempts int, started bigint,
    waiting text[], error text
) LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    v_here      pg_lsn := pg_current_wal_insert_lsn();
    v_now       timestamptz := coalesce(p_now, clock_timestamp());
    v_room      int := p_messages_max;
    v_mine      int[] := '{}';
    v_streams   bigint[];
    v_places    bigint[];
    v_n         int;
    m_partition int[] := '{}';
    m_stream    bigint[] := '{}';
    m_position  bigint[] := '{}';
    f           record;
BEGIN /* message/read_owned */
    FOR f IN
        SELECT u.no, u.after, p.no IS NOT NULL AS is_mine,
               EXISTS (SELECT 1 FROM windrow.messages m WHERE m.partition = u.no AND m.stream_no > u.after) AS has_some
          FROM unnest(f_no, f_epoch, f_after) WITH ORDINALITY u(no, epoch, after, i)
          LEFT JOIN windrow.partitions p ON p.no = u.no AND p.epoch = u.epoch AND p.instance = p_instance
         ORDER BY u.i
    LOOP
        IF NOT f.is_mine THEN
            what := 2; partition := f.no; stream_no := NULL;
            RETURN NEXT;
            CONTINUE;
        END IF;
        v_mine := v_mine || f.no;
        CONTINUE WHEN v_room = 0;
        what := 1; partition := f.no; stream_no := 0;
        IF f.has_some THEN
            WITH RECURSIVE walk AS (
                (SELECT 1 AS n, m.stream_no, m.not_before FROM windrow.messages m
                  WHERE m.partition = f.no AND m.stream_no > f.after
                  ORDER BY m.partition, m.stream_no, m.position LIMIT 1)
                UNION ALL
                SELECT w.n + 1, x.stream_no, x.not_before
                  FROM walk w CROSS JOIN LATERAL (
                    SELECT m.stream_no, m.not_before FROM windrow.messages m
                     WHERE m.partition = f.no AND m.stream_no > w.stream_no
                     ORDER BY m.partition, m.stream_no, m.position LIMIT 1) x
                 WHERE w.n < 10000
            ), seen AS (
                SELECT w.n, w.stream_no, w.not_before, width_bucket(w.stream_no, h_stream) AS h FROM walk w
            )
            SELECT array_agg(r.stream_no), array_agg(r.position) INTO v_streams, v_places
              FROM (SELECT s.stream_no, x.position
                      FROM seen s CROSS JOIN LATERAL (
                        (SELECT m.position FROM windrow.messages m
                          WHERE m.partition = f.no AND m.stream_no = s.stream_no
                            AND m.position > CASE WHEN h_stream[s.h] = s.stream_no THEN h_position[s.h] ELSE 0 END
                            AND (h_stream[s.h] = s.stream_no OR s.not_before IS NULL OR s.not_before <= v_now)
                          ORDER BY m.partition, m.stream_no, m.position LIMIT p_stream_max)
                        UNION ALL
                        SELECT NULL::bigint WHERE s.n = 10000) x
                     LIMIT v_room) r;
            v_n := coalesce(cardinality(v_streams), 0);
            IF v_n > 0 AND (v_n = v_room OR v_places[v_n] IS NULL) THEN
                stream_no := v_streams[v_n];
            END IF;
            IF v_n > 0 AND v_places[v_n] IS NULL THEN
                v_streams := v_streams[:v_n - 1];
                v_places := v_places[:v_n - 1];
                v_n := v_n - 1;
            END IF;
            IF v_n > 0 THEN
                v_room := v_room - v_n;
                m_partition := m_partition || array_fill(f.no, ARRAY[v_n]);
                m_stream := m_stream || v_streams;
                m_position := m_position || v_places;
            END IF;
        END IF;
        RETURN NEXT;
    END LOOP;

    IF cardinality(m_stream) > 0 THEN
        RETURN QUERY
        SELECT 0::smallint, m.partition, m.stream_no, m.position, s.queue, s.owner, s.name, m.id, m.kind, m.payload,
               m.headers::text, m.sent_at, m.not_before, m.attempts, m.started, m.waiting, m.error
          FROM unnest(m_partition, m_stream, m_position) WITH ORDINALITY u(partition, stream_no, position, i)
         CROSS JOIN LATERAL (SELECT * FROM windrow.messages k WHERE k.partition = u.partition
                                AND k.stream_no = u.stream_no AND k.position = u.position LIMIT 1) m
         CROSS JOIN LATERAL (SELECT * FROM windrow.streams k WHERE k.no = m.stream_no LIMIT 1) s
         ORDER BY u.i;
        PERFORM {fn}.flush_unless_flushed(v_here);
    END IF;
    RETURN QUERY
    SELECT 3::smallint, NULL::int, NULL::bigint, NULL::bigint, NULL::smallint, NULL::text, NULL::text, NULL::text,
           NULL::text, NULL::bytea, NULL::text, NULL::timestamptz, min(x.not_before), NULL::int, NULL::bigint,
           NULL::text[], NULL::text
      FROM unnest(v_mine) u(no)
     CROSS JOIN LATERAL (SELECT m.not_before FROM windrow.messages m
                          WHERE m.partition = u.no AND m.not_before > v_now ORDER BY m.not_before LIMIT 1) x;
END $$;
