-- Lets a batch go on that was cancelled or has expired, in a new generation and a new window. No line changes its place:
-- lanes that have lines without a result are open again. Says false when the batch is no longer in the state the caller
-- saw. Fails: WR409 every line has a result, or the file was dropped; WR429 the owner has p_open_max open batches.
-- Locks lanes sorted, then the batch, then its file (shared); it is told.
CREATE FUNCTION {fn}.continue_batch(
    p_now timestamptz, p_owner text, p_batch uuid, p_from text, p_to text, p_phase text, p_window_secs bigint,
    p_open_max bigint
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_now      timestamptz;
    v_batch    windrow.batches;
    v_lane     windrow.batch_lanes;
    v_state    windrow.lane_states;
    v_window   bigint;
    v_deadline timestamptz;
    v_open     boolean := false;
BEGIN /* batch/continue_batch */
    IF p_open_max IS NOT NULL THEN
        -- As creating does: one of an owner at a time, before any row.
        PERFORM pg_advisory_xact_lock(hashtextextended(owner, 429)) FROM windrow.batches WHERE id = p_batch;
    END IF;
    PERFORM 1 FROM windrow.batch_lanes WHERE batch_id = p_batch ORDER BY lane FOR UPDATE;
    SELECT * INTO v_batch FROM windrow.batches
      WHERE id = p_batch AND state = p_from AND deleted_at IS NULL AND (p_owner IS NULL OR owner = p_owner) FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM 1 FROM windrow.files WHERE id = v_batch.file_id AND state = 'sealed' FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the file of batch % was dropped', p_batch USING ERRCODE = 'WR409';
    END IF;
    IF p_open_max IS NOT NULL
        AND (SELECT count(*) FROM windrow.batches WHERE owner = v_batch.owner AND closed_at IS NULL) >= p_open_max THEN
        RAISE EXCEPTION 'the owner may have % batches that are not closed', p_open_max USING ERRCODE = 'WR429';
    END IF;
    v_now := coalesce(p_now, clock_timestamp());
    v_window := coalesce(p_window_secs, v_batch.window_secs);
    v_deadline := v_now + v_window * interval '1 s';
    UPDATE windrow.batches
       SET state = p_to, generation = generation + 1, deadline = v_deadline, window_secs = v_window, cancelling_at = NULL,
           finalizing_at = NULL, closed_at = NULL, summary = NULL, final_by = NULL, final_until = NULL
     WHERE id = p_batch;
    UPDATE windrow.batch_lanes SET deadline = v_deadline WHERE batch_id = p_batch;
    FOR v_lane IN SELECT * FROM windrow.batch_lanes WHERE batch_id = p_batch ORDER BY lane LOOP
        SELECT * INTO STRICT v_state FROM windrow.lane_states
         WHERE batch_id = p_batch AND lane = v_lane.lane ORDER BY step DESC LIMIT 1;
        IF v_lane.total > v_state.completed + v_state.failed + v_state.not_found + v_state.skipped THEN
            v_open := true;
            v_lane.phase := p_phase;
            UPDATE windrow.batch_lanes
               SET phase = p_phase, ready_at = {fn}.ready_at(v_lane, v_state.cursor, v_state.returned)
             WHERE batch_id = p_batch AND lane = v_lane.lane;
        END IF;
    END LOOP;
    IF NOT v_open THEN
        RAISE EXCEPTION 'every line of batch % has a result', p_batch USING ERRCODE = 'WR409';
    END IF;
    PERFORM {fn}.tell_batch(v_now, p_batch, v_batch.owner, 'resumed', p_to, v_batch.generation + 1, NULL);
    RETURN true;
END $$;
