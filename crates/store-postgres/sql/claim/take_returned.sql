-- Takes due lines of one bucket kind (attempts, crashes, tranche_max) out of a lane's returned rows, oldest first;
-- a row with more lines than wanted is split, lowest lines first. A set's text stays within 4096 bytes. The caller
-- holds the lane's lock.
CREATE FUNCTION {fn}.take_returned(
    p_now timestamptz, p_batch uuid, p_lane smallint, p_kind windrow.returned, p_want int,
    OUT lines text, OUT n int
) LANGUAGE plpgsql AS $$
DECLARE
    v_row   windrow.returned;
    v_taken text;
    v_rest  text;
BEGIN /* claim/take_returned */
    n := 0;
    FOR v_row IN SELECT * FROM windrow.returned r
                  WHERE r.batch_id = p_batch AND r.lane = p_lane AND r.not_before <= p_now
                    AND r.attempts = p_kind.attempts AND r.crashes = p_kind.crashes
                    AND r.tranche_max IS NOT DISTINCT FROM p_kind.tranche_max
                  ORDER BY r.not_before, r.id LOOP
        EXIT WHEN n >= p_want OR length(lines) + length(v_row.lines) >= 4096;
        IF v_row.n <= p_want - n THEN
            DELETE FROM windrow.returned r WHERE r.batch_id = p_batch AND r.lane = p_lane AND r.id = v_row.id;
            v_taken := v_row.lines;
            n := n + v_row.n;
        ELSE
            SELECT t.taken, t.rest INTO v_taken, v_rest FROM {fn}.split_lines(v_row.lines, p_want - n) t;
            UPDATE windrow.returned r SET lines = v_rest, n = v_row.n - (p_want - take_returned.n)
             WHERE r.batch_id = p_batch AND r.lane = p_lane AND r.id = v_row.id;
            n := p_want;
        END IF;
        lines := concat_ws(',', lines, v_taken);
    END LOOP;
END $$;
