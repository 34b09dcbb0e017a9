-- Answers calls and ends their messages; WR409 when a message is gone, or a call has its answer. Tells those who wait,
-- as far as a notification has room for the names. Behind partition/fence and call/lock_calls. c_reply is null for an error.
CREATE FUNCTION {fn}.commit_calls(
    p_now timestamptz, p_instance uuid, c_owner text[], c_request text[], c_partition int[], c_stream bigint[],
    c_position bigint[], c_reply bytea[], c_error text[]
) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    v_now    timestamptz := coalesce(p_now, clock_timestamp());
    v_waiter uuid;
    v_text   text;
BEGIN /* call/commit_calls */
    FOR i IN 1 .. cardinality(c_stream) LOOP
        DELETE FROM windrow.messages m
         WHERE m.partition = c_partition[i] AND m.stream_no = c_stream[i] AND m.position = c_position[i]
           AND m.id = c_request[i]
           AND EXISTS (SELECT FROM windrow.streams s WHERE s.no = c_stream[i] AND s.owner = c_owner[i] AND s.queue = 2);
        IF NOT FOUND THEN
            RAISE EXCEPTION 'the message of a call is gone' USING ERRCODE = 'WR409';
        END IF;
        UPDATE windrow.calls c
           SET state = CASE WHEN c_reply[i] IS NULL THEN 3 ELSE 2 END, reply = c_reply[i], error = c_error[i],
               instance = p_instance, processed_at = v_now, updated_at = v_now
         WHERE c.owner = c_owner[i] AND c.request_id = c_request[i] AND c.state < 2
        RETURNING c.waiter INTO v_waiter;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'a call has its answer already' USING ERRCODE = 'WR409';
        END IF;
        v_text := 'c' || json_build_array(c_owner[i], c_request[i])::text;
        IF v_waiter IS NOT NULL AND octet_length(v_text) < 8000 THEN
            PERFORM pg_notify('windrow_' || replace(v_waiter::text, '-', ''), v_text);
        END IF;
    END LOOP;
END $$;
