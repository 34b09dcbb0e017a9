-- Splits returned sets: the lines that the caller took out of each are due now, with the attempts and crashes that they
-- have; the rest waits on. Fails as stale (WR410) unless every set is as the caller saw it and its lane may run.
-- Locks lanes sorted.
CREATE FUNCTION {fn}.try_now(
    p_now timestamptz, p_batch uuid, s_lanes smallint[], s_ids bigint[], s_seen text[], s_due text[], s_due_n int[],
    s_rest text[], s_rest_n int[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_now timestamptz;
    v_set windrow.returned;
    v     record;
BEGIN /* batch/try_now */
    PERFORM 1 FROM windrow.batch_lanes WHERE batch_id = p_batch AND lane = ANY (s_lanes) ORDER BY lane FOR UPDATE;
    v_now := coalesce(p_now, clock_timestamp());
    IF EXISTS (SELECT 1 FROM windrow.batch_lanes WHERE batch_id = p_batch AND lane = ANY (s_lanes)
                  AND phase NOT IN ('open', 'paused')) THEN
        RAISE EXCEPTION 'batch % has moved on', p_batch USING ERRCODE = 'WR410';
    END IF;
    FOR v IN SELECT * FROM unnest(s_lanes, s_ids, s_seen, s_due, s_due_n, s_rest, s_rest_n)
                    u(lane, id, seen, due, due_n, rest, rest_n) LOOP
        SELECT * INTO v_set FROM windrow.returned r
         WHERE r.batch_id = p_batch AND r.lane = v.lane AND r.id = v.id AND r.lines = v.seen;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'lines of batch % have moved', p_batch USING ERRCODE = 'WR410';
        END IF;
        IF v.rest_n = 0 THEN
            DELETE FROM windrow.returned r WHERE r.batch_id = p_batch AND r.lane = v.lane AND r.id = v.id;
        ELSE
            UPDATE windrow.returned r SET lines = v.rest, n = v.rest_n
             WHERE r.batch_id = p_batch AND r.lane = v.lane AND r.id = v.id;
        END IF;
        PERFORM {fn}.add_returned(v_now, p_batch, v.lane, v_set.attempts, v_set.crashes, v_set.tranche_max, NULL,
            v.due, v.due_n);
    END LOOP;
    -- No line changes its place; the lane may be claimed from earlier.
    FOR v IN SELECT DISTINCT lane FROM unnest(s_lanes) u(lane) ORDER BY lane LOOP
        PERFORM {fn}.move_lines(p_batch, v.lane, 0, 0, 0, 0, 0, 0, 0);
    END LOOP;
END $$;
