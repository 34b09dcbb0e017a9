-- Closes a batch: the row lock, then the counts, then the end. outcome: closed, lost (token or generation is old),
-- differs (the rows read are not the counts). A repeat of the closing that succeeded says closed. The outputs become
-- files in the place of those of an earlier closing. Locks the batch, then its outputs; what became of it is told.
CREATE FUNCTION {fn}.close_batch(
    p_now timestamptz, p_batch uuid, p_instance uuid, p_token bigint, p_generation int, p_summary text,
    p_completed bigint, p_failed bigint, p_not_found bigint, p_skipped bigint,
    o_ids uuid[], o_names text[], o_places text[], o_lines bigint[], o_bytes bigint[]
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_batch windrow.batches;
    v_same  boolean;
    v_now   timestamptz;
    v_put   bigint;
BEGIN /* finalise/close_batch */
    SELECT * INTO v_batch FROM windrow.batches WHERE id = p_batch AND deleted_at IS NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'missing';
    ELSIF v_batch.final_token <> p_token OR v_batch.generation <> p_generation
        OR v_batch.final_by IS DISTINCT FROM p_instance THEN
        RETURN 'lost';
    ELSIF v_batch.closed_at IS NOT NULL THEN
        RETURN 'closed';
    END IF;
    SELECT (sum(s.completed), sum(s.failed), sum(s.not_found), sum(s.skipped))
           = (p_completed::numeric, p_failed::numeric, p_not_found::numeric, p_skipped::numeric) INTO v_same
      FROM windrow.batch_lanes l
     CROSS JOIN LATERAL (SELECT * FROM windrow.lane_states n WHERE n.batch_id = l.batch_id AND n.lane = l.lane
                          ORDER BY n.step DESC LIMIT 1) s
     WHERE l.batch_id = p_batch;
    IF NOT v_same THEN
        RETURN 'differs';
    END IF;
    v_now := coalesce(p_now, clock_timestamp());
    UPDATE windrow.batches
       SET state = replace(state, 'finalizing_', ''), closed_at = v_now, summary = p_summary
     WHERE id = p_batch;
    UPDATE windrow.files SET state = 'dropped' WHERE batch_id = p_batch AND state <> 'dropped';
    INSERT INTO windrow.files AS f
           (id, owner, name, purpose, state, lines, bytes, created_at, touched_at, sealed_at, expires_at, place, batch_id)
    SELECT o.id, v_batch.owner, o.name, 'batch_output', 'sealed', o.lines, o.bytes, v_now, v_now, v_now,
           v_now + v_batch.output_secs * interval '1 s', o.place, p_batch
      FROM unnest(o_ids, o_names, o_places, o_lines, o_bytes) o(id, name, place, lines, bytes)
    ON CONFLICT (id) DO UPDATE
       SET owner = excluded.owner, name = excluded.name, state = excluded.state, lines = excluded.lines,
           bytes = excluded.bytes, created_at = excluded.created_at, touched_at = excluded.touched_at,
           sealed_at = excluded.sealed_at, expires_at = excluded.expires_at, place = excluded.place
     WHERE f.batch_id = excluded.batch_id;
    GET DIAGNOSTICS v_put = ROW_COUNT;
    IF v_put <> cardinality(o_ids) THEN
        RAISE EXCEPTION 'the id of an output of batch % is another file''s', p_batch USING ERRCODE = 'WR500';
    END IF;
    v_batch.state := replace(v_batch.state, 'finalizing_', '');
    PERFORM {fn}.tell_batch(v_now, p_batch, v_batch.owner, v_batch.state, v_batch.state, v_batch.generation, NULL);
    RETURN 'closed';
END $$;
