-- Answers calls and ends their messages; WR409 when a message is gone, or a call has its answer. Tells those who wait
-- elsewhere, as far as a notification has room for the names. Behind partition/fence and call/lock_calls. c_reply is null
-- for an error. An answer that comes when its time is over is kept for a day.
CREATE FUNCTION {fn}.commit_calls(
    p_now timestamptz, p_instance uuid, c_owner text[], c_request text[], c_partition int[], c_stream bigint[],
    c_position bigint[], c_reply bytea[], c_error text[]
) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_now    timestamptz := coalesce(p_now, clock_timestamp());
    v_places tid[] := {fn}.places(c_partition, c_stream, c_position);
    v_calls  tid[];
    v_n      int;
BEGIN /* call/commit_calls */
    SELECT count(*) INTO v_n
      FROM unnest(v_places, c_owner, c_request, c_stream) u(place, owner, request, stream_no)
     CROSS JOIN LATERAL (SELECT FROM windrow.messages k WHERE k.ctid = u.place AND k.id = u.request LIMIT 1) m
     CROSS JOIN LATERAL (SELECT FROM windrow.streams k
                          WHERE k.no = u.stream_no AND k.owner = u.owner AND k.queue = 2 LIMIT 1) s;
    IF v_n <> cardinality(c_stream) THEN
        RAISE EXCEPTION 'the message of a call is another''s' USING ERRCODE = 'WR409';
    END IF;
    DELETE FROM windrow.messages m WHERE m.ctid = ANY (v_places);
    GET DIAGNOSTICS v_n = ROW_COUNT;
    IF v_n <> cardinality(c_stream) THEN
        RAISE EXCEPTION 'the message of a call has changed' USING ERRCODE = 'WR409';
    END IF;
    v_calls := ARRAY(
        SELECT c.ctid FROM unnest(c_owner, c_request) WITH ORDINALITY u(owner, request, i)
         CROSS JOIN LATERAL (SELECT k.ctid FROM windrow.calls k
                              WHERE k.owner = u.owner AND k.request_id = u.request AND k.state + 0 < 2 LIMIT 1) c
         ORDER BY u.i);
    IF cardinality(v_calls) <> cardinality(c_stream) THEN
        RAISE EXCEPTION 'a call has its answer already' USING ERRCODE = 'WR409';
    END IF;
    WITH answered AS (
        UPDATE windrow.calls c
           SET state = CASE WHEN u.reply IS NULL THEN 3 ELSE 2 END, reply = u.reply, error = u.error,
               instance = p_instance, processed_at = v_now, updated_at = v_now,
               expires_at = CASE WHEN c.expires_at <= v_now THEN v_now + interval '1 day' ELSE c.expires_at END
          FROM unnest(v_calls, c_reply, c_error) u(place, reply, error) WHERE c.ctid = u.place
        RETURNING c.waiter, 'c' || json_build_array(c.owner, c.request_id)::text AS told
    )
    SELECT count(CASE WHEN a.waiter <> p_instance AND octet_length(a.told) < 8000
                      THEN pg_notify('windrow_' || replace(a.waiter::text, '-', ''), a.told)::text END)
      INTO v_n FROM answered a;
END $$;
