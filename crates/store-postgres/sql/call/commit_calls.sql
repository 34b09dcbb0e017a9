-- Answers calls and ends their messages; WR409 when a message is gone, or a call has its answer. Tells those who wait
-- elsewhere, as far as a notification has room for the names. Behind partition/fence and call/lock_calls. c_reply is null
-- for an error.
CREATE FUNCTION {fn}.commit_calls(
    p_now timestamptz, p_instance uuid, c_owner text[], c_request text[], c_partition int[], c_stream bigint[],
    c_position bigint[], c_reply bytea[], c_error text[]
) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_now    timestamptz := coalesce(p_now, clock_timestamp());
    v_places tid[] := {fn}.places(c_partition, c_stream, c_position);
    v_n      int;
    v_told   int;
BEGIN /* call/commit_calls */
    DELETE FROM windrow.messages m
     USING unnest(v_places, c_owner, c_request, c_stream) u(place, owner, request, stream_no)
     WHERE m.ctid = u.place AND m.id = u.request
       AND EXISTS (SELECT FROM windrow.streams s WHERE s.no = u.stream_no AND s.owner = u.owner AND s.queue = 2);
    GET DIAGNOSTICS v_n = ROW_COUNT;
    IF v_n <> cardinality(c_stream) THEN
        RAISE EXCEPTION 'the message of a call is another''s' USING ERRCODE = 'WR409';
    END IF;
    WITH answered AS (
        UPDATE windrow.calls c
           SET state = CASE WHEN u.reply IS NULL THEN 3 ELSE 2 END, reply = u.reply, error = u.error,
               instance = p_instance, processed_at = v_now, updated_at = v_now
          FROM unnest(c_owner, c_request, c_reply, c_error) u(owner, request, reply, error)
         WHERE c.owner = u.owner AND c.request_id = u.request AND c.state < 2
        RETURNING c.waiter, 'c' || json_build_array(c.owner, c.request_id)::text AS told
    )
    SELECT count(*), count(CASE WHEN a.waiter <> p_instance AND octet_length(a.told) < 8000
                                THEN pg_notify('windrow_' || replace(a.waiter::text, '-', ''), a.told)::text END)
      INTO v_n, v_told FROM answered a;
    IF v_n <> cardinality(c_stream) THEN
        RAISE EXCEPTION 'a call has its answer already' USING ERRCODE = 'WR409';
    END IF;
END $$;
