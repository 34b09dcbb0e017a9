-- Asks, or counts a repeat. WR409 when the id was used for another question. The message's place is null for a repeat.
-- Locks the call; or, for a new one, its object's stream and then the call: of two at once, one waits and is a repeat.
CREATE FUNCTION {fn}.submit_call(
    p_now timestamptz, p_owner text, p_request text, p_type text, p_id text, p_method text, p_hash bytea, p_args bytea,
    p_policy text, p_caller_object text, p_caller_client text, p_expires_at timestamptz, p_waiter uuid, p_stream text,
    p_headers text, OUT o_partition int, OUT o_stream bigint, OUT o_position bigint
) LANGUAGE plpgsql SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_now  timestamptz;
    v_put  record;
BEGIN /* call/submit_call */
    IF NOT {fn}.repeat_call(p_owner, p_request, p_hash, p_waiter) THEN
        -- The lock first: messages of a stream come in the order of their commits.
        v_put := {fn}.lock_stream(p_now, p_owner, 2::smallint, p_stream);
        v_now := coalesce(p_now, clock_timestamp());
        INSERT INTO windrow.calls
               (owner, request_id, object_type, object_id, method, hash, args, state, policy, caller_object, caller_client,
                created_at, updated_at, expires_at, waiter)
        VALUES (p_owner, p_request, p_type, p_id, p_method, p_hash, p_args, 0, p_policy, p_caller_object,
                p_caller_client, v_now, v_now, p_expires_at, p_waiter)
        ON CONFLICT DO NOTHING;
        IF FOUND THEN
            o_partition := v_put.partition;
            o_stream := v_put.no;
            o_position := v_put.position;
            INSERT INTO windrow.messages (partition, stream_no, position, id, kind, payload, headers, sent_at)
            VALUES (o_partition, o_stream, o_position, p_request, p_method, p_args, p_headers::jsonb, v_now);
            PERFORM {fn}.wake(ARRAY[o_partition], p_waiter);
        ELSIF NOT {fn}.repeat_call(p_owner, p_request, p_hash, p_waiter) THEN
            RAISE EXCEPTION 'call % was forgotten at this moment', p_request USING ERRCODE = '40001';
        END IF;
    END IF;
END $$;
