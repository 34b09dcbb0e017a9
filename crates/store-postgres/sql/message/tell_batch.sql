-- Says in the outbox how a batch closed, where the set-up asks for it. A batch that runs again closes under another id.
-- Behind the batch's lock; locks a stream of its own.
CREATE FUNCTION {fn}.tell_batch(
    p_now timestamptz, p_batch uuid, p_owner text, p_state text, p_generation int,
    p_completed bigint, p_failed bigint, p_not_found bigint, p_skipped bigint
) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    v_stream record;
    v_says   json;
BEGIN /* message/tell_batch */
    IF NOT EXISTS (SELECT 1 FROM windrow.message_setup WHERE one AND lifecycle) THEN
        RETURN;
    END IF;
    v_says := json_build_object(
        'id', p_batch, 'state', p_state, 'generation', p_generation,
        'counts', json_build_object(
            'total', (SELECT coalesce(sum(l.total), 0) FROM windrow.batch_lanes l WHERE l.batch_id = p_batch),
            'completed', p_completed, 'failed', p_failed, 'not_found', p_not_found, 'skipped', p_skipped));
    v_stream := {fn}.lock_stream(p_now, p_owner, 1::smallint, 'batch/' || p_batch);
    INSERT INTO windrow.messages (partition, stream_no, position, id, kind, payload, sent_at)
    VALUES (v_stream.partition, v_stream.no, v_stream.position,
            p_batch || '.' || p_state || CASE p_generation WHEN 0 THEN '' ELSE '.' || p_generation END,
            'batch.' || p_state, convert_to(v_says::text, 'UTF8'), p_now);
    PERFORM {fn}.wake(ARRAY[v_stream.partition]);
END $$;
