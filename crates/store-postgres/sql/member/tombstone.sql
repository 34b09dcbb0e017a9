-- Leaves: buries the instance and gives its leases back untried, in one transaction. Null for one that never registered.
CREATE FUNCTION {fn}.tombstone(p_now timestamptz, p_instance uuid)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    v_lines bigint;
BEGIN /* member/tombstone */
    UPDATE windrow.members SET tombstoned_at = coalesce(tombstoned_at, p_now, clock_timestamp())
     WHERE instance_id = p_instance;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    SELECT r.lines INTO v_lines FROM {fn}.release_leases(p_now, p_instance, '{}', false) r;
    RETURN v_lines;
END $$;
