-- Closes a batch: the row lock, then the counts, then the end. outcome: closed, lost (token or generation is old),
-- differs (the rows read are not the counts). A repeat of the closing that succeeded says closed.
CREATE FUNCTION {fn}.close_batch(
    p_now timestamptz, p_batch uuid, p_instance uuid, p_token bigint, p_generation int, p_summary text,
    p_completed bigint, p_failed bigint, p_not_found bigint, p_skipped bigint
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_batch windrow.batches;
    v_same  boolean;
BEGIN /* finalise/close_batch */
    SELECT * INTO v_batch FROM windrow.batches WHERE id = p_batch AND deleted_at IS NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'missing';
    ELSIF v_batch.final_token <> p_token OR v_batch.generation <> p_generation
        OR v_batch.final_by IS DISTINCT FROM p_instance THEN
        RETURN 'lost';
    ELSIF v_batch.closed_at IS NOT NULL THEN
        RETURN 'closed';
    END IF;
    SELECT (sum(s.completed), sum(s.failed), sum(s.not_found), sum(s.skipped))
           = (p_completed::numeric, p_failed::numeric, p_not_found::numeric, p_skipped::numeric) INTO v_same
      FROM windrow.batch_lanes l
     CROSS JOIN LATERAL (SELECT * FROM windrow.lane_states n WHERE n.batch_id = l.batch_id AND n.lane = l.lane
                          ORDER BY n.step DESC LIMIT 1) s
     WHERE l.batch_id = p_batch;
    IF NOT v_same THEN
        RETURN 'differs';
    END IF;
    UPDATE windrow.batches
       SET state = replace(state, 'finalizing_', ''), closed_at = coalesce(p_now, clock_timestamp()), summary = p_summary
     WHERE id = p_batch;
    RETURN 'closed';
END $$;
