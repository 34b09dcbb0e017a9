-- Which lines of each lane of a batch that may run lie in ranges of lines of the file: for each range the first, and the
-- first behind it. Lines of a lane ascend with seq, so each lane is bisected, by primary key.
CREATE FUNCTION {fn}.find_seqs(p_batch uuid, p_los bigint[], p_his bigint[])
RETURNS TABLE (lane smallint, first bigint, behind bigint) LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
DECLARE
    v_lane windrow.batch_lanes;
    v_edge bigint;
    v_lo   bigint;
    v_hi   bigint;
    v_at   bigint;
BEGIN /* batch/find_seqs */
    FOR v_lane IN SELECT * FROM windrow.batch_lanes l
                   WHERE l.batch_id = p_batch AND l.phase IN ('open', 'paused') ORDER BY l.lane LOOP
        lane := v_lane.lane;
        FOR i IN 1 .. coalesce(cardinality(p_los), 0) LOOP
            FOREACH v_edge IN ARRAY ARRAY[p_los[i], p_his[i] + 1] LOOP
                v_lo := 0;
                v_hi := v_lane.total;
                WHILE v_lo < v_hi LOOP
                    SELECT t.line INTO STRICT v_at FROM windrow.templates t
                     WHERE t.file_id = v_lane.file_id AND t.lane = v_lane.lane AND t.seq = (v_lo + v_hi) / 2;
                    IF v_at < v_edge THEN
                        v_lo := (v_lo + v_hi) / 2 + 1;
                    ELSE
                        v_hi := (v_lo + v_hi) / 2;
                    END IF;
                END LOOP;
                first := behind;
                behind := v_lo;
            END LOOP;
            IF first < behind THEN
                RETURN NEXT;
            END IF;
        END LOOP;
    END LOOP;
END $$;
