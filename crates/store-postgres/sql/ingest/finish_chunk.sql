-- Accounts for a chunk whose lines were just copied in the same transaction: counts them by lane, and makes the
-- chunk's row. Fails (WR409) when the file is not open, the
-- chunk is not the next or a lane's numbers have a gap, and (WR400) when its lanes are not named densely.
CREATE FUNCTION {fn}.finish_chunk(
    p_now timestamptz, p_file uuid, p_no int, p_bytes bigint, p_spans text,
    p_new_lanes smallint[], p_new_targets text[], p_lanes smallint[], p_firsts bigint[], p_counts bigint[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_changed int;
BEGIN /* ingest/finish_chunk */
    UPDATE windrow.files
       SET chunks = chunks + 1, bytes = bytes + p_bytes, touched_at = coalesce(p_now, clock_timestamp()),
           lines = lines + (SELECT coalesce(sum(n), 0) FROM unnest(p_lanes, p_counts) u(lane, n) WHERE lane >= 0)
     WHERE id = p_file AND state = 'open' AND chunks = p_no;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'file % is not open, or chunk % is not its next', p_file, p_no USING ERRCODE = 'WR409';
    END IF;
    IF (SELECT count(*) FROM windrow.file_lanes WHERE file_id = p_file AND lane >= 0)
        <> coalesce(p_new_lanes[1], (SELECT count(*) FROM windrow.file_lanes WHERE file_id = p_file AND lane >= 0)) THEN
        RAISE EXCEPTION 'chunk % of file % names a lane that is not the next', p_no, p_file USING ERRCODE = 'WR400';
    END IF;
    INSERT INTO windrow.file_lanes (file_id, lane, target, lines)
    SELECT p_file, lane, target, 0 FROM unnest(p_new_lanes, p_new_targets) u(lane, target);
    IF -1 = ANY (p_lanes) THEN
        INSERT INTO windrow.file_lanes VALUES (p_file, -1, NULL, 0) ON CONFLICT DO NOTHING;
    END IF;
    IF EXISTS (SELECT 1 FROM unnest(p_lanes) l WHERE NOT EXISTS (
        SELECT 1 FROM windrow.file_lanes f WHERE f.file_id = p_file AND f.lane = l)) THEN
        RAISE EXCEPTION 'chunk % of file % uses a lane that has no name', p_no, p_file USING ERRCODE = 'WR400';
    END IF;
    UPDATE windrow.file_lanes f SET lines = f.lines + u.n
      FROM unnest(p_lanes, p_firsts, p_counts) u(lane, first, n)
     WHERE f.file_id = p_file AND f.lane = u.lane AND f.lines = u.first;
    GET DIAGNOSTICS v_changed = ROW_COUNT;
    IF v_changed <> cardinality(p_lanes) THEN
        RAISE EXCEPTION 'chunk % of file % has a gap in a lane', p_no, p_file USING ERRCODE = 'WR409';
    END IF;
    INSERT INTO windrow.file_chunks VALUES (p_file, p_no, p_bytes, p_spans);
END $$;
