-- Writes the shaped rows of results anew where the generation is the one that was read; says how many, or null when the owner
-- has no such batch. Locks the batch, so that no reprocess moves the same results meanwhile.
CREATE FUNCTION {fn}.reshape(p_owner text, p_batch uuid, p_lines bigint[], p_generations int[], p_shaped text[])
RETURNS bigint LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    v_written bigint;
BEGIN /* batch/reshape */
    PERFORM 1 FROM windrow.batches
      WHERE id = p_batch AND deleted_at IS NULL AND (p_owner IS NULL OR owner = p_owner) FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    UPDATE windrow.results r SET shaped = u.shaped
      FROM unnest(p_lines, p_generations, p_shaped) u(line, generation, shaped)
     WHERE r.batch_id = p_batch AND r.line = u.line AND r.generation = u.generation;
    GET DIAGNOSTICS v_written = ROW_COUNT;
    RETURN v_written;
END $$;
