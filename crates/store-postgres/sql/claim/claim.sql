-- Leases one tranche, in the claim order: the owner with the least in flight, then priority, deadline, batch; due
-- returned lines before untouched ones. Nothing of a batch whose window has ended. Skips locked lanes; a claim that may wait (one that holds no lane yet) waits
-- for the best lane when all are locked. Uses lanes_ready. The lines in flight are summed over leases from token
-- p_leases_from on (a hint: everything before it was gone when somebody looked), so that a held snapshot's dead
-- versions are not waded through; the hint for next time is returned.
-- p_upstreams and p_targets say in pairs which lanes may be claimed. A lane of the unknown upstream ('?') is bound, under
-- its lock, to the one that p_binds has beside the pair.
CREATE FUNCTION {fn}.claim(
    p_now timestamptz, p_instance uuid, p_lease uuid, p_upstreams text[],
    p_targets text[], p_binds text[], p_only uuid, p_lines_max int,
    p_lease_ms bigint, p_leases_from bigint, p_may_wait boolean,
    OUT leases_from bigint
) LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    v_now     timestamptz;
    v_holder  uuid;
    v_upstreams text[] := p_upstreams;
    v_targets text[] := p_targets;
    v_best    record;
    v_lane    windrow.batch_lanes;
    v_state   windrow.lane_states;
    v_kind    windrow.returned;
    v_want    int;
    v_n       int;
    v_lines   text;
    v_bound   text;
    v_owners  jsonb;
    v_waited  boolean := NOT p_may_wait;
    v_limited boolean := false;
BEGIN /* claim/claim */
    leases_from := p_leases_from;
    SELECT instance_id INTO v_holder FROM windrow.leases WHERE id = p_lease;
    IF FOUND THEN
        IF v_holder <> p_instance THEN
            RAISE EXCEPTION 'lease % is held by another instance', p_lease USING ERRCODE = 'WR409';
        END IF;
        RETURN;
    END IF;
    -- A zombie that claims would only lose again what it claims.
    IF EXISTS (SELECT 1 FROM windrow.members WHERE instance_id = p_instance AND tombstoned_at IS NOT NULL) THEN
        RETURN;
    END IF;

    SELECT coalesce(min(first), p_leases_from), jsonb_object_agg(owner, n) FILTER (WHERE owner IS NOT NULL)
      INTO leases_from, v_owners
      FROM (SELECT owner, sum(n) AS n, min(token) AS first FROM windrow.leases
             WHERE token >= p_leases_from GROUP BY owner) flight;

    LOOP
        v_now := coalesce(p_now, clock_timestamp());
        v_lane := NULL;
        FOR v_best IN
            WITH RECURSIVE walk AS (
                SELECT r.upstream, r.target, (SELECT l.owner FROM windrow.batch_lanes l
                                               WHERE l.upstream = r.upstream AND l.target = r.target
                                                 AND l.ready_at IS NOT NULL ORDER BY l.owner LIMIT 1) AS owner
                  FROM unnest(v_upstreams, v_targets) r(upstream, target)
                UNION ALL
                SELECT w.upstream, w.target, (SELECT l.owner FROM windrow.batch_lanes l
                                               WHERE l.upstream = w.upstream AND l.target = w.target
                                                 AND l.owner > w.owner AND l.ready_at IS NOT NULL
                                               ORDER BY l.owner LIMIT 1)
                  FROM walk w WHERE w.owner IS NOT NULL
            )
            SELECT w.upstream, w.target, w.owner, b.batch_id, b.lane
              FROM walk w
             CROSS JOIN LATERAL (
                SELECT l.batch_id, l.lane, l.priority, l.deadline FROM windrow.batch_lanes l
                 WHERE l.upstream = w.upstream AND l.target = w.target AND l.owner = w.owner AND l.ready_at <= v_now
                   AND (l.deadline IS NULL OR l.deadline > v_now) AND (p_only IS NULL OR l.batch_id = p_only)
                 ORDER BY l.priority DESC, l.deadline, l.batch_id, l.lane LIMIT 1) b
             WHERE w.owner IS NOT NULL
             ORDER BY coalesce((v_owners ->> w.owner)::bigint, 0), b.priority DESC, b.deadline, b.batch_id, b.lane
        LOOP
            SELECT * INTO v_lane FROM windrow.batch_lanes l
             WHERE l.upstream = v_best.upstream AND l.target = v_best.target AND l.owner = v_best.owner
               AND l.ready_at <= v_now AND l.phase = 'open'
               AND (l.deadline IS NULL OR l.deadline > v_now) AND (p_only IS NULL OR l.batch_id = p_only)
             ORDER BY l.priority DESC, l.deadline, l.batch_id, l.lane LIMIT 1
               FOR UPDATE SKIP LOCKED;
            EXIT WHEN FOUND;
            IF NOT v_waited THEN
                v_waited := true;
                SELECT * INTO v_lane FROM windrow.batch_lanes l
                 WHERE l.batch_id = v_best.batch_id AND l.lane = v_best.lane AND l.phase = 'open'
                   AND l.upstream = v_best.upstream AND l.ready_at <= v_now
                   AND (l.deadline IS NULL OR l.deadline > v_now) FOR UPDATE;
                EXIT WHEN FOUND;
            END IF;
        END LOOP;
        IF v_lane.batch_id IS NULL THEN
            RETURN;
        END IF;
        v_waited := true;
        v_now := coalesce(p_now, clock_timestamp());

        SELECT * INTO STRICT v_state FROM windrow.lane_states
         WHERE batch_id = v_lane.batch_id AND lane = v_lane.lane ORDER BY step DESC LIMIT 1;
        v_kind := NULL;
        IF v_state.returned > 0 THEN
            SELECT * INTO v_kind FROM windrow.returned
             WHERE batch_id = v_lane.batch_id AND lane = v_lane.lane AND not_before <= v_now
             ORDER BY not_before, id LIMIT 1;
        END IF;
        IF v_kind.id IS NULL AND v_state.cursor = v_lane.total THEN
            -- The lane looked ready and is not: say so for the next one who looks, and go on.
            UPDATE windrow.batch_lanes SET ready_at = {fn}.ready_at(v_lane, v_state.cursor, v_state.returned)
             WHERE batch_id = v_lane.batch_id AND lane = v_lane.lane;
            CONTINUE;
        END IF;

        IF v_kind.id IS NOT NULL THEN
            v_want := least(p_lines_max, coalesce(v_kind.tranche_max, p_lines_max), v_state.returned);
        ELSE
            v_want := least(p_lines_max, v_lane.total - v_state.cursor);
        END IF;
        PERFORM {fn}.lock_permits(p_instance, p_targets);
        v_want := {fn}.use_permits(v_lane.target, p_instance, v_want, NOT v_limited);
        IF v_want = 0 THEN
            v_limited := true;
            -- No lane is waited for any more, so looking at all limits at once blocks nobody.
            SELECT coalesce(array_agg(r.u), '{}'), coalesce(array_agg(r.t), '{}') INTO v_upstreams, v_targets
              FROM unnest(v_upstreams, v_targets) r(u, t)
             WHERE r.t <> v_lane.target
               AND NOT EXISTS (SELECT 1 FROM windrow.targets w WHERE w.target = r.t AND w.granted >= w.in_flight_max
                        AND NOT EXISTS (SELECT 1 FROM windrow.permits p WHERE p.target = r.t AND p.granted > p.used));
            CONTINUE;
        END IF;
        IF v_lane.upstream = '?' THEN
            SELECT r.b INTO STRICT v_bound FROM unnest(p_upstreams, p_targets, p_binds) r(u, t, b)
             WHERE r.u = '?' AND r.t = v_lane.target LIMIT 1;
            UPDATE windrow.batch_lanes SET upstream = v_bound
             WHERE batch_id = v_lane.batch_id AND lane = v_lane.lane;
            v_lane.upstream := v_bound;
            -- Once for all lanes of a batch that go there.
            INSERT INTO windrow.acts (batch_id, id, at, actor, action)
            SELECT v_lane.batch_id, gen_random_uuid(), v_now, 'instance ' || p_instance, 'bind to ' || v_bound
             WHERE NOT EXISTS (SELECT 1 FROM windrow.acts a
                                WHERE a.batch_id = v_lane.batch_id AND a.action = 'bind to ' || v_bound);
        END IF;

        IF v_kind.id IS NOT NULL THEN
            SELECT {fn}.tidy_lines(t.lines), t.n INTO v_lines, v_n
              FROM {fn}.take_returned(v_now, v_lane.batch_id, v_lane.lane, v_kind, v_want) t;
            PERFORM {fn}.move_lines(v_lane.batch_id, v_lane.lane, 0, -v_n, v_n, 0, 0, 0, 0);
            IF v_n < v_want THEN
                PERFORM {fn}.free_permits(ARRAY[v_lane.target], ARRAY[p_instance], ARRAY[v_want - v_n]);
            END IF;
        ELSE
            v_n := v_want;
            v_lines := CASE v_n WHEN 1 THEN v_state.cursor::text
                                ELSE v_state.cursor || '-' || (v_state.cursor + v_n - 1) END;
            PERFORM {fn}.move_lines(v_lane.batch_id, v_lane.lane, v_n, 0, v_n, 0, 0, 0, 0);
        END IF;
        INSERT INTO windrow.leases
               (id, instance_id, batch_id, lane, file_id, upstream, target, owner, attempts, crashes, generation, lines, n,
                granted_n, granted_at, expires_at)
        SELECT p_lease, p_instance, v_lane.batch_id, v_lane.lane, v_lane.file_id, v_lane.upstream, v_lane.target,
               v_lane.owner,
               coalesce(v_kind.attempts, 0), coalesce(v_kind.crashes, 0), b.generation, v_lines, v_n, v_n, v_now,
               v_now + p_lease_ms * interval '1 ms'
          FROM windrow.batches b WHERE b.id = v_lane.batch_id
        ON CONFLICT (id) DO NOTHING;
        IF NOT FOUND THEN
            -- The same claim, sent twice at once: the other one has it. Nothing of this one may stay.
            RAISE EXCEPTION 'lease % was granted meanwhile', p_lease USING ERRCODE = 'WR410';
        END IF;
        RETURN;
    END LOOP;
END $$;
