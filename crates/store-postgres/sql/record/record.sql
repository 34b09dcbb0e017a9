-- Records outcomes of leases that the caller believes to hold: results, history, what stays leased, the fold.
-- Fails as stale (WR410) and changes nothing unless every lease is there with the expected token,
-- version, outstanding lines and instance.
-- Says which leases that keep lines must not go on (`stopped`).
-- Locks leases (sorted), then, after the wide inserts, lanes (sorted), then batches, then permits.
-- The l_ arrays are sorted by lease id; r_lease, a_lease and b_lease are positions in them, from 1.
CREATE FUNCTION {fn}.record(
    p_now timestamptz, p_instance uuid, p_claim_targets text[], p_entries_max int,
    l_id uuid[], l_token bigint[], l_version int[], l_lines text[], l_rest text[], l_rest_n int[],
    l_completed int[], l_failed int[], l_not_found int[], l_skipped int[],
    r_lease int[], r_line bigint[], r_seq bigint[], r_status smallint[], r_attempts int[], r_http smallint[],
    r_custom text[], r_code text[], r_error text[], r_response bytea[], r_shaped text[], r_normalised text[], r_class text[],
    a_lease int[], a_line bigint[], a_class text[], a_code text[], a_error text[], a_not_before timestamptz[],
    b_lease int[], b_tried boolean[], b_not_before timestamptz[], b_lines text[], b_n int[],
    OUT finalizing uuid[], OUT stopped uuid[]
) LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    v_now      timestamptz;
    v_token    bigint[];
    v_target   text[];
    v_version  int[];
    v_lines    text[];
    v_batch    uuid[];
    v_lane     smallint[];
    v_gen      int[];
    v_tries    int[];
    v_crashes  int[];
    v_granted  int[];
    v_n        int[];
    v_left     int[];
    v_done     uuid[] := '{}';
    v_stop     boolean;
    v          record;
    w          record;
BEGIN /* record/record */
    SELECT array_agg(token ORDER BY id), array_agg(version ORDER BY id), array_agg(lines ORDER BY id), array_agg(batch_id ORDER BY id),
           array_agg(lane ORDER BY id), array_agg(generation ORDER BY id), array_agg(attempts ORDER BY id),
           array_agg(crashes ORDER BY id), array_agg(granted_n ORDER BY id), array_agg(n ORDER BY id),
           array_agg(target ORDER BY id)
      INTO v_token, v_version, v_lines, v_batch, v_lane, v_gen, v_tries, v_crashes, v_granted, v_n, v_target
      FROM (SELECT * FROM windrow.leases
             WHERE id = ANY (l_id) AND instance_id = p_instance ORDER BY id FOR UPDATE) held;
    IF v_token IS DISTINCT FROM l_token OR v_version IS DISTINCT FROM l_version
        OR v_lines IS DISTINCT FROM l_lines THEN
        RAISE EXCEPTION 'a lease is gone or has changed' USING ERRCODE = 'WR410';
    END IF;
    v_now := coalesce(p_now, clock_timestamp());
    finalizing := '{}';
    stopped := '{}';

    INSERT INTO windrow.results
           (batch_id, line, seq, created_at, lane, status, attempts, generation, http_status, custom_id,
            error_code, error, response, shaped, normalised, class)
    SELECT v_batch[l], line, seq, v_now, v_lane[l], status, tries, v_gen[l], http, custom, code, err, resp, shaped, norm, class
      FROM unnest(r_lease, r_line, r_seq, r_status, r_attempts, r_http, r_custom, r_code, r_error, r_response,
                  r_shaped, r_normalised, r_class)
           u(l, line, seq, status, tries, http, custom, code, err, resp, shaped, norm, class);
    IF cardinality(a_lease) > 0 THEN
        -- Beyond the first entries a throttled attempt joins the one before it, by primary key; what joined conflicts below.
        FOR w IN SELECT * FROM unnest(a_lease, a_line, a_class, a_code, a_error, a_not_before) u(l, line, class, code, err, at)
                  WHERE u.class = 'throttled' AND v_tries[u.l] >= p_entries_max LOOP
            UPDATE windrow.attempts SET attempt = attempt + 1, times = times + 1, error_code = w.code, error = w.err,
                   not_before = w.at, created_at = v_now
             WHERE batch_id = v_batch[w.l] AND line = w.line AND generation = v_gen[w.l] AND attempt = v_tries[w.l]
               AND class = 'throttled';
        END LOOP;
        INSERT INTO windrow.attempts
               (batch_id, line, generation, attempt, class, error_code, error, not_before, created_at)
        SELECT v_batch[l], line, v_gen[l], v_tries[l] + 1, class, code, err, not_before, v_now
          FROM unnest(a_lease, a_line, a_class, a_code, a_error, a_not_before) u(l, line, class, code, err, not_before)
        ON CONFLICT DO NOTHING;
    END IF;
    DELETE FROM windrow.leases d USING unnest(l_id, l_rest_n) u(id, n) WHERE d.id = u.id AND u.n = 0;
    UPDATE windrow.leases k SET lines = u.rest, n = u.n, version = k.version + 1
      FROM unnest(l_id, l_rest, l_rest_n) u(id, rest, n) WHERE k.id = u.id AND u.n > 0;

    SELECT array_agg(a.n - b.n ORDER BY a.i) INTO v_left
      FROM unnest(v_n) WITH ORDINALITY a(n, i) JOIN unnest(l_rest_n) WITH ORDINALITY b(n, i) USING (i);
    FOR v IN SELECT b, l, sum(gone) AS gone, sum(c) AS c, sum(f) AS f, sum(m) AS m, sum(s) AS s
               FROM unnest(v_batch, v_lane, v_left, l_completed, l_failed, l_not_found, l_skipped) u(b, l, gone, c, f, m, s)
              GROUP BY b, l ORDER BY b, l LOOP
        SELECT phase <> 'open' OR coalesce(deadline <= v_now, false) INTO v_stop
          FROM windrow.batch_lanes WHERE batch_id = v.b AND lane = v.l FOR UPDATE;
        IF v_stop THEN
            stopped := stopped || ARRAY(SELECT u.id FROM unnest(l_id, l_rest_n, v_batch, v_lane) u(id, n, b, l)
                                         WHERE u.b = v.b AND u.l = v.l AND u.n > 0);
        END IF;
        IF v.gone > v.c + v.f + v.m + v.s THEN
            FOR w IN SELECT * FROM unnest(b_lease, b_tried, b_not_before, b_lines, b_n) u(i, tried, at, lines, n)
                      WHERE v_batch[i] = v.b AND v_lane[i] = v.l LOOP
                PERFORM {fn}.add_returned(v_now, v.b, v.l,
                    v_tries[w.i] + w.tried::int,
                    CASE WHEN w.tried THEN 0 ELSE v_crashes[w.i] END,
                    CASE WHEN w.tried OR v_crashes[w.i] = 0 THEN NULL ELSE v_granted[w.i] END,
                    w.at, w.lines, w.n);
            END LOOP;
        END IF;
        IF {fn}.move_lines(v.b, v.l, 0, v.gone - v.c - v.f - v.m - v.s, -v.gone, v.c, v.f, v.m, v.s) THEN
            v_done := v_done || v.b;
        END IF;
    END LOOP;
    IF cardinality(v_done) > 0 THEN
        finalizing := {fn}.settle_batches(v_now, v_done);
    END IF;
    PERFORM {fn}.lock_permits(p_instance, v_target || p_claim_targets);
    PERFORM {fn}.free_permits(v_target, array_fill(p_instance, ARRAY[cardinality(l_id)]), v_left);
END $$;
