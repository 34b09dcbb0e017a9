-- Moves a batch from one running state to another and its lanes to the phase that goes with it, under the locks that
-- claims take. Says false when the batch is no longer in the state the caller saw. Returns the batch when this made
-- its last lane done. With p_window_secs a new window begins; one that is not late any more does not expire. Locks
-- lanes sorted, then the batch; a batch that moved is told of.
CREATE FUNCTION {fn}.steer_batch(
    p_now timestamptz, p_owner text, p_batch uuid, p_from text, p_to text, p_phase text, p_reason text,
    p_window_secs bigint,
    OUT steered boolean, OUT finalizing uuid[]
) LANGUAGE plpgsql AS $$
DECLARE
    v_now   timestamptz;
    v_batch windrow.batches;
    v_lane  windrow.batch_lanes;
    v_state windrow.lane_states;
    v_done  boolean := false;
BEGIN /* batch/steer_batch */
    finalizing := '{}';
    PERFORM 1 FROM windrow.batch_lanes WHERE batch_id = p_batch ORDER BY lane FOR UPDATE;
    SELECT * INTO v_batch FROM windrow.batches
      WHERE id = p_batch AND state = p_from AND deleted_at IS NULL AND (p_owner IS NULL OR owner = p_owner) FOR UPDATE;
    steered := FOUND;
    IF NOT steered THEN
        RETURN;
    END IF;
    v_now := coalesce(p_now, clock_timestamp());
    IF p_to = 'expiring' AND v_batch.deadline > v_now THEN
        RETURN;
    END IF;
    IF p_window_secs IS NOT NULL THEN
        UPDATE windrow.batches SET deadline = v_now + p_window_secs * interval '1 s', window_secs = p_window_secs
         WHERE id = p_batch;
        UPDATE windrow.batch_lanes SET deadline = v_now + p_window_secs * interval '1 s' WHERE batch_id = p_batch;
    END IF;
    UPDATE windrow.batches
       SET state = p_to, last_error = coalesce(p_reason, last_error),
           cancelling_at = CASE WHEN p_to = 'cancelling' THEN coalesce(cancelling_at, v_now) ELSE cancelling_at END
     WHERE id = p_batch;
    FOR v_lane IN SELECT * FROM windrow.batch_lanes WHERE batch_id = p_batch AND phase <> 'done' ORDER BY lane LOOP
        SELECT * INTO STRICT v_state FROM windrow.lane_states
         WHERE batch_id = p_batch AND lane = v_lane.lane ORDER BY step DESC LIMIT 1;
        v_lane.phase := CASE WHEN p_phase = 'stopping' AND v_state.leased = 0 THEN 'done' ELSE p_phase END;
        v_done := v_done OR v_lane.phase = 'done';
        UPDATE windrow.batch_lanes
           SET phase = v_lane.phase, ready_at = {fn}.ready_at(v_lane, v_state.cursor, v_state.returned)
         WHERE batch_id = p_batch AND lane = v_lane.lane;
    END LOOP;
    IF v_done THEN
        finalizing := {fn}.settle_batches(v_now, ARRAY[p_batch]);
    END IF;
    IF p_to <> p_from THEN
        PERFORM {fn}.tell_batch(v_now, p_batch, v_batch.owner, CASE p_to WHEN 'in_progress' THEN 'resumed' ELSE p_to END,
                                p_to, v_batch.generation, p_reason);
    END IF;
END $$;
