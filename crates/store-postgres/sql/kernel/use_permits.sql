-- Takes up to p_want permits of a limited target for an instance: its own idle ones, then a block from the target,
-- then what others leave idle. Returns how many; p_want itself for a target without a limit. Under a limit that was
-- lowered, idle permits end first. Waits for the target's row only when told so: a claim may look at several targets,
-- in no fixed order.
CREATE FUNCTION {fn}.use_permits(p_target text, p_instance uuid, p_want int, p_wait boolean)
RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    v_idle   int;
    v_target windrow.targets;
    v_other  windrow.permits;
    v_over   int;
    v_end    int;
    v_take   int;
BEGIN /* kernel/use_permits */
    SELECT * INTO v_target FROM windrow.targets WHERE target = p_target;
    IF NOT FOUND THEN
        RETURN p_want;
    END IF;
    SELECT granted - used INTO v_idle FROM windrow.permits
     WHERE target = p_target AND instance_id = p_instance FOR UPDATE;
    v_idle := coalesce(v_idle, 0);
    v_over := v_target.granted - v_target.in_flight_max;
    IF v_idle < p_want OR v_over > 0 THEN
        IF p_wait THEN
            SELECT * INTO v_target FROM windrow.targets WHERE target = p_target FOR UPDATE;
        ELSE
            SELECT * INTO v_target FROM windrow.targets WHERE target = p_target FOR UPDATE SKIP LOCKED;
        END IF;
        IF v_target.target IS NULL THEN
            IF v_over > 0 THEN
                RETURN 0;
            END IF;
        ELSE
            -- A limit that was lowered: idle permits end, the caller's own first, before any is used or moved.
            v_over := greatest(v_target.granted - v_target.in_flight_max, 0);
            v_end := least(v_over, v_idle);
            v_take := least(greatest(v_target.in_flight_max - v_target.granted, 0),
                            greatest(p_want - v_idle, v_target.in_flight_max / 8, 1));
            v_over := v_over - v_end;
            v_idle := v_idle - v_end + v_take;
            v_target.granted := v_target.granted - v_end + v_take;
            FOR v_other IN SELECT * FROM windrow.permits
                            WHERE target = p_target AND instance_id <> p_instance AND granted > used
                            ORDER BY instance_id FOR UPDATE SKIP LOCKED LOOP
                EXIT WHEN v_over = 0 AND v_idle >= p_want;
                v_end := least(v_over, v_other.granted - v_other.used);
                v_over := v_over - v_end;
                v_take := CASE WHEN v_over = 0 THEN least(v_other.granted - v_other.used - v_end, p_want - v_idle) ELSE 0 END;
                UPDATE windrow.permits SET granted = granted - v_end - v_take
                 WHERE target = p_target AND instance_id = v_other.instance_id;
                v_idle := v_idle + v_take;
                v_target.granted := v_target.granted - v_end;
            END LOOP;
            UPDATE windrow.targets SET granted = v_target.granted WHERE target = p_target;
        END IF;
    END IF;
    v_take := least(v_idle, p_want);
    UPDATE windrow.permits SET granted = used + v_idle, used = used + v_take
     WHERE target = p_target AND instance_id = p_instance;
    RETURN v_take;
END $$;
