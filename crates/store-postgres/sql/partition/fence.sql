-- Proves that these partitions are the instance's at these epochs, until the transaction ends; WR410 when one is not, or
-- when the instance is tombstoned or unknown. One lock on the instance's own member row stands for all of them: whoever
-- takes a partition away locks that row first. The partitions are read behind the lock, with a new snapshot.
CREATE FUNCTION {fn}.fence(p_instance uuid, f_no int[], f_epoch bigint[])
RETURNS void LANGUAGE plpgsql SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_tombstoned timestamptz;
    v_others     bigint;
BEGIN /* partition/fence */
    PERFORM 1 FROM windrow.members WHERE instance_id = p_instance FOR KEY SHARE;
    SELECT tombstoned_at INTO v_tombstoned FROM windrow.members WHERE instance_id = p_instance;
    IF NOT FOUND OR v_tombstoned IS NOT NULL THEN
        RAISE EXCEPTION 'instance % is no member any more', p_instance USING ERRCODE = 'WR410';
    END IF;
    -- Many are found with one look at all of them, which NOT IN hashes whatever the planner believes; few one by one.
    IF cardinality(f_no) > 16 THEN
        SELECT count(*) INTO v_others FROM unnest(f_no, f_epoch) f(no, epoch)
         WHERE (f.no, f.epoch) NOT IN (SELECT p.no, p.epoch FROM windrow.partitions p WHERE p.instance = p_instance);
    ELSE
        SELECT cardinality(f_no) - count(*) INTO v_others
          FROM unnest(f_no, f_epoch) f(no, epoch)
         CROSS JOIN LATERAL (SELECT FROM windrow.partitions p
                              WHERE p.no = f.no AND p.epoch = f.epoch AND p.instance = p_instance LIMIT 1) p;
    END IF;
    IF v_others > 0 THEN
        RAISE EXCEPTION 'a partition is another''s, or of another epoch' USING ERRCODE = 'WR410';
    END IF;
END $$;
