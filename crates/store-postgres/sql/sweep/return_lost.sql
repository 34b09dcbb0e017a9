-- Takes back leases whose time has passed or whose holder is tombstoned; skips those somebody is recording.
CREATE FUNCTION {fn}.return_lost(
    p_now timestamptz, p_limit int, p_crashes_max int,
    OUT leases bigint, OUT returned bigint, OUT failed bigint, OUT finalizing uuid[]
) LANGUAGE plpgsql AS $$
DECLARE
    v_now  timestamptz := coalesce(p_now, clock_timestamp());
    v_lost uuid[];
BEGIN /* sweep/return_lost */
    SELECT coalesce(array_agg(h.id), '{}') INTO v_lost
      FROM (SELECT l.id FROM windrow.leases l
             WHERE l.expires_at <= v_now OR l.instance_id IN (
                SELECT m.instance_id FROM windrow.members m WHERE m.tombstoned_at IS NOT NULL)
             ORDER BY l.id LIMIT p_limit FOR UPDATE SKIP LOCKED) h;
    SELECT g.leases, g.returned, g.failed, g.finalizing INTO leases, returned, failed, finalizing
      FROM {fn}.give_back(v_now, v_lost, p_crashes_max) g;
END $$;
