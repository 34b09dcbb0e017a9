-- The one place that changes a lane's numbers: writes the next step, and keeps ready_at and phase true.
-- The caller holds the lane's lock, has changed the rows already, and settles the batch when this says "done".
CREATE FUNCTION {fn}.move_lines(
    p_batch uuid, p_lane smallint, p_cursor bigint, p_returned bigint, p_leased bigint,
    p_completed bigint, p_failed bigint, p_not_found bigint, p_skipped bigint
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_lane  windrow.batch_lanes;
    v_state windrow.lane_states;
    v_left  bigint;
    v_ready timestamptz;
BEGIN /* kernel/move_lines */
    SELECT * INTO STRICT v_lane FROM windrow.batch_lanes WHERE batch_id = p_batch AND lane = p_lane;
    SELECT * INTO STRICT v_state FROM windrow.lane_states
     WHERE batch_id = p_batch AND lane = p_lane ORDER BY step DESC LIMIT 1;
    DELETE FROM windrow.lane_states WHERE batch_id = p_batch AND lane = p_lane AND step = v_state.step;

    v_state.step      := v_state.step + 1;
    v_state.cursor    := v_state.cursor + p_cursor;
    v_state.returned  := v_state.returned + p_returned;
    v_state.leased    := v_state.leased + p_leased;
    v_state.completed := v_state.completed + p_completed;
    v_state.failed    := v_state.failed + p_failed;
    v_state.not_found := v_state.not_found + p_not_found;
    v_state.skipped   := v_state.skipped + p_skipped;
    INSERT INTO windrow.lane_states VALUES (v_state.*);

    v_left := v_lane.total - v_state.completed - v_state.failed - v_state.not_found - v_state.skipped;
    IF v_left <> v_lane.total - v_state.cursor + v_state.returned + v_state.leased
        OR least(v_lane.total - v_state.cursor, v_state.returned, v_state.leased, v_left) < 0 THEN
        RAISE EXCEPTION 'lane % of batch % does not add up: %', p_lane, p_batch, v_state USING ERRCODE = 'WR500';
    END IF;
    IF v_lane.phase <> 'done' AND (v_left = 0 OR (v_lane.phase = 'stopping' AND v_state.leased = 0)) THEN
        UPDATE windrow.batch_lanes SET phase = 'done', ready_at = NULL
         WHERE batch_id = p_batch AND lane = p_lane;
        RETURN true;
    END IF;
    IF v_state.cursor = v_lane.total THEN
        v_ready := {fn}.ready_at(v_lane, v_state.cursor, v_state.returned);
        IF v_ready IS DISTINCT FROM v_lane.ready_at THEN
            UPDATE windrow.batch_lanes SET ready_at = v_ready WHERE batch_id = p_batch AND lane = p_lane;
        END IF;
    END IF;
    RETURN false;
END $$;
