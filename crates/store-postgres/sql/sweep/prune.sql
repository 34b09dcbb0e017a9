-- Marks for removal what is past its retention: closed batches, abandoned and expired files, old tombstones.
CREATE FUNCTION {fn}.prune(
    p_now timestamptz, p_batch_secs bigint, p_open_secs bigint, p_member_secs bigint, p_limit int,
    OUT batches bigint, OUT files bigint, OUT members bigint
) LANGUAGE plpgsql AS $$
DECLARE
    v_now  timestamptz := coalesce(p_now, clock_timestamp());
    v_file uuid;
    v_gone uuid[];
BEGIN /* sweep/prune */
    WITH gone AS (
        UPDATE windrow.batches SET deleted_at = v_now WHERE id IN (
            SELECT b.id FROM windrow.batches b
             WHERE b.closed_at <= v_now - p_batch_secs * interval '1 s' AND b.deleted_at IS NULL
             ORDER BY b.closed_at LIMIT p_limit FOR UPDATE SKIP LOCKED)
        RETURNING id
    )
    SELECT coalesce(array_agg(id), '{}') INTO v_gone FROM gone;
    batches := cardinality(v_gone);
    UPDATE windrow.files f SET state = 'dropped' WHERE f.batch_id = ANY (v_gone) AND f.state <> 'dropped';
    files := 0;
    FOR v_file IN
        SELECT f.id FROM windrow.files f
         WHERE ((f.state = 'open' AND f.touched_at <= v_now - p_open_secs * interval '1 s')
            OR (f.state IN ('sealed', 'invalid') AND f.expires_at <= v_now))
           AND NOT EXISTS (SELECT 1 FROM windrow.batches b
                            WHERE b.file_id = f.id AND b.closed_at IS NULL AND b.deleted_at IS NULL)
         ORDER BY f.id LIMIT p_limit FOR UPDATE SKIP LOCKED
    LOOP
        -- Under the file's lock, so that no batch can be created over it between the look and the drop.
        IF NOT EXISTS (SELECT 1 FROM windrow.batches b
                        WHERE b.file_id = v_file AND b.closed_at IS NULL AND b.deleted_at IS NULL) THEN
            UPDATE windrow.files SET state = 'dropped' WHERE id = v_file;
            files := files + 1;
        END IF;
    END LOOP;
    -- Permits of those who left and hold nothing go back to their targets.
    WITH gone AS (
        DELETE FROM windrow.permits p WHERE p.used = 0 AND NOT EXISTS (
            SELECT 1 FROM windrow.leases l WHERE l.instance_id = p.instance_id) AND EXISTS (
            SELECT 1 FROM windrow.members m WHERE m.instance_id = p.instance_id
               AND m.tombstoned_at <= v_now - p_member_secs * interval '1 s')
        RETURNING p.target, p.granted
    )
    UPDATE windrow.targets t SET granted = t.granted - g.granted
      FROM (SELECT target, sum(granted)::int AS granted FROM gone GROUP BY target) g WHERE t.target = g.target;
    DELETE FROM windrow.members WHERE instance_id IN (
        SELECT m.instance_id FROM windrow.members m
         WHERE m.tombstoned_at <= v_now - p_member_secs * interval '1 s'
           AND NOT EXISTS (SELECT 1 FROM windrow.leases l WHERE l.instance_id = m.instance_id)
         ORDER BY m.tombstoned_at LIMIT p_limit FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS members = ROW_COUNT;
END $$;
