-- Puts finished lines back: moves their results to those of earlier generations (the history has them, too, each with its
-- own class, or p_class), adds the sets (built from the same lines by the caller) to the
-- returned rows, and reopens lanes and batch. Fails as stale (WR410) unless the batch is in the state and generation
-- the caller saw and exactly these lines are finished and older than the new generation.
-- Locks lanes sorted, then the batch; its first step is told.
CREATE FUNCTION {fn}.reprocess(
    p_now timestamptz, p_owner text, p_batch uuid, p_from text, p_to text, p_phase text, p_old int, p_new int,
    p_lines bigint[], p_waits int[], b_lanes smallint[], b_attempts int[], b_waits int[], b_lines text[], b_n int[],
    p_class text, p_missed text, s_words text[], s_errors text[], p_starts_over boolean, p_window_secs bigint
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_now  timestamptz;
    v_batch windrow.batches;
    v_gone bigint;
    v_done boolean := false;
    v      record;
    w      record;
BEGIN /* batch/reprocess */
    PERFORM 1 FROM windrow.batch_lanes WHERE batch_id = p_batch ORDER BY lane FOR UPDATE;
    SELECT * INTO v_batch FROM windrow.batches
      WHERE id = p_batch AND state = p_from AND generation = p_old AND deleted_at IS NULL
        AND (p_owner IS NULL OR owner = p_owner) FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'batch % has moved on', p_batch USING ERRCODE = 'WR410';
    END IF;
    -- The shared lock that creating a batch holds too: the file stays while lines may run again.
    PERFORM 1 FROM windrow.files f JOIN windrow.batches b ON b.file_id = f.id
      WHERE b.id = p_batch AND f.state = 'sealed' FOR SHARE OF f;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the file of batch % was dropped', p_batch USING ERRCODE = 'WR409';
    END IF;
    v_now := coalesce(p_now, clock_timestamp());
    UPDATE windrow.batches
       SET state = p_to, generation = p_new, finalizing_at = NULL, closed_at = NULL, summary = NULL,
           final_by = NULL, final_until = NULL
     WHERE id = p_batch;
    IF v_batch.closed_at IS NOT NULL THEN
        -- It was closed, and begins a new window.
        v_batch.window_secs := coalesce(p_window_secs, v_batch.window_secs);
        UPDATE windrow.batches
           SET window_secs = v_batch.window_secs, deadline = v_now + v_batch.window_secs * interval '1 s'
         WHERE id = p_batch;
        UPDATE windrow.batch_lanes SET deadline = v_now + v_batch.window_secs * interval '1 s' WHERE batch_id = p_batch;
    END IF;
    UPDATE windrow.batch_lanes SET phase = p_phase
     WHERE batch_id = p_batch AND (phase <> 'done' OR lane = ANY (b_lanes));
    FOR w IN SELECT * FROM unnest(b_lanes, b_attempts, b_waits, b_lines, b_n) u(lane, attempts, wait, lines, n) LOOP
        PERFORM {fn}.add_returned(v_now, p_batch, w.lane, w.attempts, 0, NULL,
            date_bin('250 ms', v_now + w.wait * interval '1 s', 'epoch'), w.lines, w.n);
    END LOOP;
    v_gone := 0;
    FOR v IN WITH gone AS (
                DELETE FROM windrow.results r
                 WHERE r.batch_id = p_batch AND r.line = ANY (p_lines) AND r.generation < p_new
             RETURNING r.*),
             moved AS (
                INSERT INTO windrow.results_before
                       (batch_id, line, generation, seq, created_at, lane, status, attempts, http_status, custom_id,
                        error_code, error, response, shaped, normalised, class)
                SELECT batch_id, line, generation, seq, created_at, lane, status, attempts, http_status, custom_id,
                       error_code, error, response, shaped, normalised, class FROM gone),
             kept AS (
                INSERT INTO windrow.attempts
                       (batch_id, line, generation, attempt, class, error_code, error, not_before, created_at, put_back,
                        starts_over)
                -- The next number when the last try has an entry already: its worker was lost.
                SELECT p_batch, g.line, g.generation, g.attempts + EXISTS (
                           SELECT 1 FROM windrow.attempts a WHERE a.batch_id = p_batch AND a.line = g.line
                              AND a.generation = g.generation AND a.attempt = g.attempts)::int,
                       coalesce(g.class, CASE g.status WHEN 2 THEN p_missed ELSE p_class END),
                       coalesce(g.error_code, s_words[g.status + 1]), coalesce(g.error, s_errors[g.status + 1]),
                       v_now + u.wait * interval '1 s', v_now, true, p_starts_over
                  FROM gone g JOIN unnest(p_lines, p_waits) u(line, wait) ON u.line = g.line
                ON CONFLICT DO NOTHING)
             SELECT lane, count(*) AS n, count(*) FILTER (WHERE status = 0) AS c, count(*) FILTER (WHERE status = 1) AS f,
                    count(*) FILTER (WHERE status = 2) AS m, count(*) FILTER (WHERE status = 3) AS s
               FROM gone GROUP BY lane ORDER BY lane LOOP
        PERFORM {fn}.move_lines(p_batch, v.lane, 0, v.n, 0, -v.c, -v.f, -v.m, -v.s);
        v_gone := v_gone + v.n;
    END LOOP;
    IF v_gone <> cardinality(p_lines) THEN
        RAISE EXCEPTION 'lines of batch % have moved', p_batch USING ERRCODE = 'WR410';
    END IF;
    IF p_new > p_old THEN
        PERFORM {fn}.tell_batch(v_now, p_batch, v_batch.owner, 'reprocessed', p_to, p_new, NULL);
    END IF;
END $$;
