-- The outstanding lines of a lease, range by range by primary key (a join would be at the mercy of estimates). A lease
-- with lines that cannot be read fails, and its claim with it.
CREATE FUNCTION {fn}.lease_lines(p_lease uuid)
RETURNS TABLE (seq bigint, line bigint, raw bytea) LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    v_lease windrow.leases;
    v_range record;
    v_rows  bigint;
    v_read  bigint := 0;
BEGIN /* claim/lease_lines */
    SELECT * INTO v_lease FROM windrow.leases WHERE id = p_lease;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    FOR v_range IN SELECT split_part(part, '-', 1)::bigint AS lo,
                          coalesce(nullif(split_part(part, '-', 2), ''), part)::bigint AS hi
                     FROM unnest(string_to_array(v_lease.lines, ',')) part LOOP
        RETURN QUERY
        SELECT w.seq, w.line, w.raw FROM windrow.templates w
         WHERE w.file_id = v_lease.file_id AND w.lane = v_lease.lane AND w.seq BETWEEN v_range.lo AND v_range.hi;
        GET DIAGNOSTICS v_rows = ROW_COUNT;
        v_read := v_read + v_rows;
    END LOOP;
    IF v_read <> v_lease.n THEN
        RAISE EXCEPTION 'lease % has % lines and only % can be read', p_lease, v_lease.n, v_read USING ERRCODE = 'WR500';
    END IF;
END $$;
