-- Tells what was done to a batch, where the set-up asks for it: an event of its own stream and a message of the outbox, both
-- under one id. The end of a run is told once in each generation, and leaves a snapshot, so that its events can be
-- pruned one day; what may happen often has the event's number in its id. Behind the batch's lock, which orders what is
-- told of it; locks a stream, then an event stream, then a snapshot, as every commit.
CREATE FUNCTION {fn}.tell_batch(
    p_now timestamptz, p_batch uuid, p_owner text, p_act text, p_state text, p_generation int, p_reason text
) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    v_name   text := 'batch/' || p_batch;
    v_id     text := p_batch || '.' || p_act;
    v_stream record;
    v_no     bigint;
    v_says   json;
    v_bytes  bytea;
BEGIN /* message/tell_batch */
    IF NOT EXISTS (SELECT 1 FROM windrow.message_setup WHERE one AND lifecycle) THEN
        RETURN;
    END IF;
    SELECT json_strip_nulls(json_build_object(
               'id', p_batch, 'state', p_state, 'generation', p_generation, 'reason', left(p_reason, 1000),
               'counts', json_build_object(
                   'total', coalesce(sum(l.total), 0), 'completed', coalesce(sum(s.completed), 0),
                   'failed', coalesce(sum(s.failed), 0), 'not_found', coalesce(sum(s.not_found), 0),
                   'skipped', coalesce(sum(s.skipped), 0)))) INTO v_says
      FROM windrow.batch_lanes l
     CROSS JOIN LATERAL (SELECT * FROM windrow.lane_states n WHERE n.batch_id = l.batch_id AND n.lane = l.lane
                          ORDER BY n.step DESC LIMIT 1) s
     WHERE l.batch_id = p_batch;
    v_bytes := convert_to(v_says::text, 'UTF8');
    v_stream := {fn}.lock_stream(p_now, p_owner, 1::smallint, v_name);
    IF p_act IN ('paused', 'resumed') THEN
        SELECT s.version + 1 INTO v_no FROM windrow.event_streams s WHERE s.owner = p_owner AND s.stream = v_name FOR UPDATE;
        v_id := v_id || '.' || coalesce(v_no, 1);
    ELSIF p_generation > 0 THEN
        v_id := v_id || '.' || p_generation;
    END IF;
    v_no := ({fn}.append_events(
        p_now, ARRAY[p_owner], ARRAY[v_name], ARRAY[1], ARRAY[1], ARRAY[0], ARRAY[1], ARRAY[NULL]::bigint[],
        ARRAY[1], ARRAY[1], ARRAY[v_id], ARRAY['batch.' || p_act], ARRAY[v_bytes], ARRAY[NULL]::text[]))[1] + 1;
    IF p_state IN ('completed', 'failed', 'cancelled', 'expired') THEN
        INSERT INTO windrow.snapshots AS o (owner, stream, version, state, oldest_at)
        SELECT p_owner, v_name, v_no, v_bytes, coalesce(min(e.at), '-infinity') FROM windrow.events e
         WHERE e.owner = p_owner AND e.stream = v_name AND e.version = 1
        ON CONFLICT (owner, stream) DO UPDATE SET version = excluded.version, state = excluded.state;
    END IF;
    INSERT INTO windrow.messages (partition, stream_no, position, id, kind, payload, sent_at)
    VALUES (v_stream.partition, v_stream.no, v_stream.position, v_id, 'batch.' || p_act, v_bytes, p_now);
    PERFORM {fn}.wake(ARRAY[v_stream.partition]);
END $$;
