-- Asks several calls, in the order given, which is sorted by the bytes of owner and stream. Locks all streams; so a repeat
-- leaves a gap in its stream. Behind call/lock_calls, for those that are there. o_: places of the messages, null for a repeat. Behind partition/fence.
CREATE FUNCTION {fn}.submit_calls(
    p_now timestamptz, c_owner text[], c_request text[], c_type text[], c_id text[], c_method text[], c_hash bytea[],
    c_args bytea[], c_policy text[], c_caller_object text[], c_caller_client text[], c_expires_at timestamptz[],
    c_waiter uuid[], c_stream text[], c_headers text[],
    OUT o_partition int[], OUT o_stream bigint[], OUT o_position bigint[]
) LANGUAGE plpgsql SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_now    timestamptz;
    v_stream record;
BEGIN /* call/submit_calls */
    FOR i IN 1 .. cardinality(c_owner) LOOP
        v_stream := {fn}.lock_stream(p_now, c_owner[i], 2::smallint, c_stream[i]);
        o_partition[i] := v_stream.partition;
        o_stream[i] := v_stream.no;
        o_position[i] := v_stream.position;
    END LOOP;
    v_now := coalesce(p_now, clock_timestamp());
    FOR i IN 1 .. cardinality(c_owner) LOOP
        IF {fn}.repeat_call(c_owner[i], c_request[i], c_hash[i], c_waiter[i]) THEN
            o_position[i] := NULL;
        ELSE
            -- Somebody who asks the same at this moment waits for the same stream, unless it is another question.
            INSERT INTO windrow.calls
                   (owner, request_id, object_type, object_id, method, hash, args, state, policy, caller_object,
                    caller_client, created_at, updated_at, expires_at, waiter)
            VALUES (c_owner[i], c_request[i], c_type[i], c_id[i], c_method[i], c_hash[i], c_args[i], 0, c_policy[i],
                    c_caller_object[i], c_caller_client[i], v_now, v_now, c_expires_at[i], c_waiter[i]);
            INSERT INTO windrow.messages (partition, stream_no, position, id, kind, payload, headers, sent_at)
            VALUES (o_partition[i], o_stream[i], o_position[i], c_request[i], c_method[i], c_args[i],
                    c_headers[i]::jsonb, v_now);
        END IF;
    END LOOP;
    PERFORM {fn}.wake(o_partition);
END $$;
