-- Creates a batch and its lanes, in O(lanes). Holds a shared lock on the file, so that it cannot be dropped meanwhile.
-- Returns the batch's id, or that of the batch that was created before under the same id or key. Fails: WR404 the owner
-- has no such file, WR400 the file is an output, WR409 the file is open, or id or key were used with other arguments,
-- WR429 the owner has p_open_max open batches already. With p_seal_state the file is open, and is sealed before. What is
-- new is told. All lanes go to p_target, or else each to the file's; a lane's upstream is the one beside its target in
-- p_targets, or else p_others.
CREATE FUNCTION {fn}.create_batch(
    p_now timestamptz, p_id uuid, p_file uuid, p_owner text, p_endpoint text, p_window_secs bigint, p_priority smallint,
    p_job_type text, p_source_address text, p_metadata text, p_key text, p_output_secs bigint,
    p_open_max bigint, p_errors text, p_seal_state text, p_seal_errors text, p_seal_endpoint text,
    p_targets text[], p_upstreams text[], p_others text, p_target text, p_recipe text, p_recipe_hash bytea
) RETURNS uuid LANGUAGE plpgsql AS $$
DECLARE
    v_now   timestamptz := coalesce(p_now, clock_timestamp());
    v_state text;
    v_errors text;
    v_of    uuid;
    v_open  bigint;
    v_old   windrow.batches;
BEGIN /* batch/create_batch */
    IF p_open_max IS NOT NULL THEN
        -- One of an owner at a time, or two that do not see each other would both be the last. Before any row.
        PERFORM pg_advisory_xact_lock(hashtextextended(p_owner, 429));
    END IF;
    IF p_seal_state IS NOT NULL THEN
        PERFORM 1 FROM {fn}.seal_file(p_now, p_file, p_seal_state, p_seal_errors, p_seal_endpoint);
    END IF;
    SELECT state, batch_id, errors INTO v_state, v_of, v_errors FROM windrow.files WHERE id = p_file AND owner = p_owner FOR SHARE;
    IF v_state IS NULL OR v_state = 'dropped' THEN
        RAISE EXCEPTION 'there is no file %', p_file USING ERRCODE = 'WR404';
    ELSIF v_of IS NOT NULL THEN
        RAISE EXCEPTION 'file % is the output of a batch', p_file USING ERRCODE = 'WR400';
    ELSIF v_state = 'open' THEN
        RAISE EXCEPTION 'file % is still open', p_file USING ERRCODE = 'WR409';
    END IF;
    IF p_errors IS NOT NULL THEN
        v_state := 'invalid';
        v_errors := p_errors;
    END IF;
    INSERT INTO windrow.batches
           (id, file_id, owner, endpoint, state, priority, job_type, source_address, metadata, idempotency_key,
            created_at, deadline, window_secs, closed_at, output_secs, errors,
            recipe_hash)
    VALUES (p_id, p_file, p_owner, p_endpoint, CASE v_state WHEN 'sealed' THEN 'in_progress' ELSE 'failed' END,
            p_priority, p_job_type, p_source_address, p_metadata, p_key, v_now,
            v_now + p_window_secs * interval '1 s', p_window_secs, CASE WHEN v_state <> 'sealed' THEN v_now END,
            p_output_secs, CASE WHEN v_state <> 'sealed' THEN v_errors END, p_recipe_hash)
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        SELECT * INTO v_old FROM windrow.batches
         WHERE deleted_at IS NULL AND (id = p_id OR (owner = p_owner AND idempotency_key = p_key))
         ORDER BY id = p_id DESC LIMIT 1;
        IF v_old.id IS NULL OR v_old.owner <> p_owner OR v_old.file_id <> p_file OR v_old.endpoint <> p_endpoint
            OR v_old.idempotency_key IS DISTINCT FROM p_key OR v_old.recipe_hash IS DISTINCT FROM p_recipe_hash THEN
            RAISE EXCEPTION 'the id or idempotency key was used with other arguments' USING ERRCODE = 'WR409';
        END IF;
        RETURN v_old.id;
    END IF;
    IF v_state = 'sealed' AND p_open_max IS NOT NULL THEN
        SELECT count(*) INTO v_open FROM windrow.batches WHERE owner = p_owner AND closed_at IS NULL;
        IF v_open > p_open_max THEN
            RAISE EXCEPTION 'the owner may have % batches that are not closed', p_open_max USING ERRCODE = 'WR429';
        END IF;
    END IF;
    IF p_recipe IS NOT NULL THEN
        INSERT INTO windrow.batch_recipes VALUES (p_id, 0, p_recipe);
    END IF;
    IF v_state = 'sealed' THEN
        INSERT INTO windrow.batch_lanes
               (batch_id, lane, upstream, target, owner, file_id, priority, deadline, total, phase, ready_at, created_at)
        SELECT p_id, l.lane,
               coalesce((SELECT r.u FROM unnest(p_targets, p_upstreams) r(t, u) WHERE r.t = coalesce(p_target, l.target) LIMIT 1), p_others),
               coalesce(p_target, l.target), p_owner, p_file, p_priority, v_now + p_window_secs * interval '1 s', l.lines,
               'open', '-infinity', v_now
          FROM windrow.file_lanes l WHERE l.file_id = p_file AND l.lane >= 0 AND l.lines > 0;
        INSERT INTO windrow.lane_states
        SELECT p_id, l.lane, 0, 0, 0, 0, 0, 0, 0, 0
          FROM windrow.file_lanes l WHERE l.file_id = p_file AND l.lane >= 0 AND l.lines > 0;
        PERFORM {fn}.tell_batch(v_now, p_id, p_owner, 'created', 'in_progress', 0, NULL);
    ELSE
        PERFORM {fn}.tell_batch(v_now, p_id, p_owner, 'failed', 'failed', 0, NULL);
    END IF;
    RETURN p_id;
END $$;
