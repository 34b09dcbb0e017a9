-- Answers calls and ends their messages; WR409 when a message is gone, or a call has its answer. Tells those who wait,
-- as far as a notification has room for the names. Behind partition/fence and call/lock_calls. c_reply is null for an error.
CREATE FUNCTION {fn}.commit_calls(
    p_now timestamptz, p_instance uuid, c_owner text[], c_request text[], c_partition int[], c_stream bigint[],
    c_position bigint[], c_reply bytea[], c_error text[]
) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    v_n   int;
BEGIN /* call/commit_calls */
    DELETE FROM windrow.messages m
     USING unnest(c_owner, c_request, c_partition, c_stream, c_position) u(owner, request, partition, stream_no, position)
     WHERE m.partition = u.partition AND m.stream_no = u.stream_no AND m.position = u.position AND m.id = u.request
       AND EXISTS (SELECT 1 FROM windrow.streams s WHERE s.no = u.stream_no AND s.owner = u.owner AND s.queue = 2);
    GET DIAGNOSTICS v_n = ROW_COUNT;
    IF v_n <> cardinality(c_stream) THEN
        RAISE EXCEPTION 'the message of a call is gone' USING ERRCODE = 'WR409';
    END IF;
    WITH answered AS (
        UPDATE windrow.calls c
           SET state = CASE WHEN u.reply IS NULL THEN 3 ELSE 2 END, reply = u.reply, error = u.error,
               instance = p_instance, processed_at = v_now, updated_at = v_now
          FROM unnest(c_owner, c_request, c_reply, c_error) u(owner, request, reply, error)
         WHERE c.owner = u.owner AND c.request_id = u.request AND c.state < 2
        RETURNING c.owner, c.request_id, c.waiter
    ), told AS (
        SELECT pg_notify('windrow_' || replace(a.waiter::text, '-', ''), t.text)
          FROM answered a CROSS JOIN LATERAL (SELECT 'c' || json_build_array(a.owner, a.request_id)::text AS text) t
         WHERE a.waiter IS NOT NULL AND octet_length(t.text) < 8000
    )
    SELECT count(*) + 0 * (SELECT count(*) FROM told) INTO v_n FROM answered;
    IF v_n <> cardinality(c_stream) THEN
        RAISE EXCEPTION 'a call has its answer already' USING ERRCODE = 'WR409';
    END IF;
END $$;
