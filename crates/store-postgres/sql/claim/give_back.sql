-- Gives whole leases back: released (p_crashes_max null: nothing is counted) or lost (a crash is counted, the next
-- tranche is halved, and a line that is alone in its lease and crashed too often becomes a failed result when the lease is
-- marked: it ran alone in its instance. Without the mark the loss is not counted: another line may be to blame).
-- The caller has locked the leases, sorted. Locks lanes sorted, then batches, then permits.
CREATE FUNCTION {fn}.give_back(
    p_now timestamptz, p_leases uuid[], p_crashes_max int,
    OUT leases bigint, OUT returned bigint, OUT failed bigint, OUT finalizing uuid[]
) LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    v_lease windrow.leases;
    v_lane  record;
    v_line  bigint;
    v_last  boolean;
    v_fails int;
    v_backs int;
    v_done  uuid[] := '{}';
    v_targets   text[] := '{}';
    v_instances uuid[] := '{}';
    v_counts    int[]  := '{}';
BEGIN /* claim/give_back */
    leases := 0; returned := 0; failed := 0; finalizing := '{}';
    FOR v_lane IN SELECT DISTINCT l.batch_id, l.lane FROM windrow.leases l WHERE l.id = ANY (p_leases)
                   ORDER BY l.batch_id, l.lane LOOP
        PERFORM 1 FROM windrow.batch_lanes b WHERE b.batch_id = v_lane.batch_id AND b.lane = v_lane.lane FOR UPDATE;
        v_fails := 0;
        v_backs := 0;
        FOR v_lease IN SELECT * FROM windrow.leases l
                        WHERE l.id = ANY (p_leases) AND l.batch_id = v_lane.batch_id AND l.lane = v_lane.lane
                        ORDER BY l.id LOOP
            v_line := NULL;
            v_last := coalesce(v_lease.n = 1 AND v_lease.crashes + 1 >= p_crashes_max, false);
            IF v_last AND v_lease.alone THEN
                SELECT t.line INTO v_line FROM windrow.templates t
                 WHERE t.file_id = v_lease.file_id AND t.lane = v_lease.lane AND t.seq = v_lease.lines::bigint;
            END IF;
            IF v_line IS NOT NULL THEN
                INSERT INTO windrow.results
                       (batch_id, line, seq, created_at, lane, status, attempts, generation, error_code, error)
                VALUES (v_lease.batch_id, v_line, v_lease.lines::bigint, p_now, v_lease.lane, 1, v_lease.attempts,
                        v_lease.generation, 'worker_lost',
                        'the worker was lost ' || v_lease.crashes + 1 || ' times with this line in its hands');
                v_fails := v_fails + 1;
            ELSE
                PERFORM {fn}.add_returned(p_now, v_lease.batch_id, v_lease.lane, v_lease.attempts,
                    v_lease.crashes + (p_crashes_max IS NOT NULL AND NOT v_last)::int,
                    CASE WHEN p_crashes_max IS NOT NULL THEN least(greatest((v_lease.n + 1) / 2, 1), 1000)
                         WHEN v_lease.crashes > 0 THEN v_lease.granted_n END,
                    NULL, v_lease.lines, v_lease.n);
                v_backs := v_backs + v_lease.n;
            END IF;
            leases := leases + 1;
            v_targets := v_targets || v_lease.target;
            v_instances := v_instances || v_lease.instance_id;
            v_counts := v_counts || v_lease.n;
        END LOOP;
        DELETE FROM windrow.leases l
         WHERE l.id = ANY (p_leases) AND l.batch_id = v_lane.batch_id AND l.lane = v_lane.lane;
        IF {fn}.move_lines(v_lane.batch_id, v_lane.lane, 0, v_backs, -(v_backs + v_fails), 0, v_fails, 0, 0) THEN
            v_done := v_done || v_lane.batch_id;
        END IF;
        returned := returned + v_backs;
        failed := failed + v_fails;
    END LOOP;
    finalizing := {fn}.settle_batches(p_now, v_done);
    PERFORM {fn}.free_permits(v_targets, v_instances, v_counts);
END $$;
