-- Deletes rows of one dropped file or deleted batch, at most about p_rows_max of them: wide rows first, the row that
-- says what to reap last, so that a step that was cut off is found again. more: whether there may be more to do.
CREATE FUNCTION {fn}.reap(p_rows_max int, OUT rows bigint, OUT more boolean) LANGUAGE plpgsql AS $$
DECLARE
    v_id uuid;
    v_n  bigint;
BEGIN /* sweep/reap */
    rows := 0;
    SELECT id INTO v_id FROM windrow.batches WHERE deleted_at IS NOT NULL ORDER BY deleted_at LIMIT 1;
    IF FOUND THEN
        -- Lanes before the batch, as everywhere.
        PERFORM 1 FROM windrow.batch_lanes WHERE batch_id = v_id ORDER BY lane FOR UPDATE;
        PERFORM 1 FROM windrow.batches WHERE id = v_id FOR UPDATE;
        DELETE FROM windrow.results WHERE batch_id = v_id AND line IN (
            SELECT line FROM windrow.results WHERE batch_id = v_id ORDER BY line LIMIT p_rows_max);
        GET DIAGNOSTICS v_n = ROW_COUNT;
        rows := rows + v_n;
        DELETE FROM windrow.results_before WHERE batch_id = v_id AND (line, generation) IN (
            SELECT line, generation FROM windrow.results_before WHERE batch_id = v_id
             ORDER BY line, generation LIMIT p_rows_max - rows);
        GET DIAGNOSTICS v_n = ROW_COUNT;
        rows := rows + v_n;
        DELETE FROM windrow.attempts WHERE batch_id = v_id AND (line, generation, attempt) IN (
            SELECT line, generation, attempt FROM windrow.attempts WHERE batch_id = v_id
             ORDER BY line, generation, attempt LIMIT p_rows_max - rows);
        GET DIAGNOSTICS v_n = ROW_COUNT;
        rows := rows + v_n;
        DELETE FROM windrow.acts WHERE batch_id = v_id AND id IN (
            SELECT id FROM windrow.acts WHERE batch_id = v_id ORDER BY id LIMIT p_rows_max - rows);
        GET DIAGNOSTICS v_n = ROW_COUNT;
        rows := rows + v_n;
        DELETE FROM windrow.batch_recipes WHERE batch_id = v_id AND generation IN (
            SELECT generation FROM windrow.batch_recipes WHERE batch_id = v_id ORDER BY generation LIMIT p_rows_max - rows);
        GET DIAGNOSTICS v_n = ROW_COUNT;
        rows := rows + v_n;
        more := true;
        IF rows < p_rows_max THEN
            DELETE FROM windrow.returned WHERE batch_id = v_id;
            DELETE FROM windrow.lane_states WHERE batch_id = v_id;
            DELETE FROM windrow.batch_lanes WHERE batch_id = v_id;
            DELETE FROM windrow.batches WHERE id = v_id;
            rows := rows + 1;
        END IF;
        RETURN;
    END IF;
    -- An output waits until its bytes are gone. Uses files_to_reap.
    SELECT id INTO v_id FROM windrow.files WHERE state = 'dropped' AND place IS NULL
     ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED;
    more := FOUND;
    IF more THEN
        DELETE FROM windrow.templates WHERE file_id = v_id AND (lane, seq) IN (
            SELECT lane, seq FROM windrow.templates WHERE file_id = v_id ORDER BY lane, seq LIMIT p_rows_max);
        GET DIAGNOSTICS rows = ROW_COUNT;
        IF rows < p_rows_max THEN
            DELETE FROM windrow.file_chunks WHERE file_id = v_id;
            DELETE FROM windrow.file_lanes WHERE file_id = v_id;
            DELETE FROM windrow.files WHERE id = v_id;
            rows := rows + 1;
        END IF;
    END IF;
END $$;
