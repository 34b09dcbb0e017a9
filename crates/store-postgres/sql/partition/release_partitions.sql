-- Gives partitions back that are the instance's at these epochs; a tombstoned one has nothing to give. Waits for its commits that are under way, which hold its
-- member row; then locks the partitions (sorted).
CREATE FUNCTION {fn}.release_partitions(p_instance uuid, f_no int[], f_epoch bigint[])
RETURNS bigint LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    v_freed bigint;
BEGIN /* partition/release_partitions */
    PERFORM 1 FROM windrow.members WHERE instance_id = p_instance FOR UPDATE;
    IF EXISTS (SELECT 1 FROM windrow.members WHERE instance_id = p_instance AND tombstoned_at IS NOT NULL) THEN
        RETURN 0;
    END IF;
    PERFORM 1 FROM windrow.partitions WHERE no = ANY (f_no) ORDER BY no FOR UPDATE;
    UPDATE windrow.partitions p SET instance = NULL
      FROM unnest(f_no, f_epoch) f(no, epoch)
     WHERE p.no = f.no AND p.epoch = f.epoch AND p.instance = p_instance;
    GET DIAGNOSTICS v_freed = ROW_COUNT;
    RETURN v_freed;
END $$;
