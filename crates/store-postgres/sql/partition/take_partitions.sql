-- Takes those wanted partitions that are free or whose owner is tombstoned or unknown, and gives those that are the
-- instance's own as they are. Locks the member rows of the dead owners (sorted), and so waits for their commits that are
-- under way; then the partitions (sorted). One whose owner changed to somebody else meanwhile is left alone.
CREATE FUNCTION {fn}.take_partitions(p_now timestamptz, p_instance uuid, p_wanted int[])
RETURNS TABLE (no int, epoch bigint, is_suspect boolean) LANGUAGE plpgsql SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    v_tombstoned timestamptz;
    v_dead       uuid[];
BEGIN /* partition/take_partitions */
    SELECT m.tombstoned_at INTO v_tombstoned FROM windrow.members m WHERE m.instance_id = p_instance;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'instance % never registered', p_instance USING ERRCODE = 'WR404';
    ELSIF v_tombstoned IS NOT NULL THEN
        RAISE EXCEPTION 'instance % was tombstoned', p_instance USING ERRCODE = 'WR410';
    END IF;
    SELECT array_agg(d.instance_id) INTO v_dead
      FROM (SELECT m.instance_id FROM windrow.members m
             WHERE m.tombstoned_at IS NOT NULL
               AND m.instance_id IN (SELECT p.instance FROM windrow.partitions p WHERE p.no = ANY (p_wanted))
             ORDER BY m.instance_id FOR UPDATE) d;
    PERFORM 1 FROM windrow.partitions p WHERE p.no = ANY (p_wanted) ORDER BY p.no FOR UPDATE;
    UPDATE windrow.partitions p
       SET epoch = p.epoch + 1, instance = p_instance, is_suspect = p.is_suspect OR p.instance IS NOT NULL,
           taken_at = coalesce(p_now, clock_timestamp())
     WHERE p.no = ANY (p_wanted)
       AND (p.instance IS NULL OR p.instance = ANY (v_dead)
            OR NOT EXISTS (SELECT 1 FROM windrow.members m WHERE m.instance_id = p.instance));
    RETURN QUERY SELECT p.no, p.epoch, p.is_suspect FROM windrow.partitions p
                  WHERE p.no = ANY (p_wanted) AND p.instance = p_instance ORDER BY p.no;
END $$;
