-- Sets or removes a target's limit in flight; what is in flight now counts as used.
CREATE FUNCTION {fn}.set_limit(p_target text, p_in_flight_max int)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN /* claim/set_limit */
    -- Every claim reads this table before it inserts a lease: it has committed and is counted, or it waits for us.
    LOCK TABLE windrow.targets IN ACCESS EXCLUSIVE MODE;
    DELETE FROM windrow.permits WHERE target = p_target;
    DELETE FROM windrow.targets WHERE target = p_target;
    IF p_in_flight_max IS NULL THEN
        RETURN;
    END IF;
    INSERT INTO windrow.permits
    SELECT p_target, l.instance_id, sum(l.n), sum(l.n) FROM windrow.leases l
     WHERE l.target = p_target GROUP BY l.instance_id;
    INSERT INTO windrow.targets
    SELECT p_target, p_in_flight_max, coalesce(sum(p.granted), 0) FROM windrow.permits p WHERE p.target = p_target;
END $$;
