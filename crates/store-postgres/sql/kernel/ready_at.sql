-- The earliest time at which something of an open lane may be claimed; null when nothing waits.
CREATE FUNCTION {fn}.ready_at(p_lane windrow.batch_lanes, p_cursor bigint, p_returned bigint)
RETURNS timestamptz LANGUAGE plpgsql AS $$
BEGIN /* kernel/ready_at */
    RETURN CASE
        WHEN p_lane.phase <> 'open' THEN NULL
        WHEN p_cursor < p_lane.total THEN '-infinity'
        WHEN p_returned > 0 THEN (
            SELECT min(r.not_before) FROM windrow.returned r
             WHERE r.batch_id = p_lane.batch_id AND r.lane = p_lane.lane)
    END;
END $$;
