-- Prunes up to p_limit events that are older than p_event_ms (null for never) and that their stream's snapshot stands for,
-- from the beginning of each stream, and looks at up to p_limit streams; gives how many. Uses snapshots_prunable, so that
-- streams with nothing to prune cost nothing. Locks snapshots, skips locked ones, and waits for nobody: appends go on.
CREATE FUNCTION {fn}.prune_events(p_now timestamptz, p_event_ms bigint, p_limit bigint)
RETURNS bigint LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    v_now  timestamptz := coalesce(p_now, clock_timestamp());
    v_old  timestamptz := v_now - p_event_ms * interval '1 ms';
    v_gone bigint := 0;
    v_last bigint;
    v_n    bigint;
    v      record;
BEGIN /* event/prune_events */
    FOR v IN SELECT s.owner, s.stream, s.first, s.version FROM windrow.snapshots s
              WHERE s.first <= s.version AND s.oldest_at <= v_old
              ORDER BY s.oldest_at LIMIT p_limit FOR UPDATE SKIP LOCKED LOOP
        EXIT WHEN v_gone >= p_limit;
        v_last := least(v.version, v.first + p_limit - v_gone - 1);
        SELECT coalesce(min(e.version) - 1, v_last) INTO v_last FROM windrow.events e
         WHERE e.owner = v.owner AND e.stream = v.stream AND e.version BETWEEN v.first AND v_last AND e.at > v_old;
        DELETE FROM windrow.events e
         WHERE e.owner = v.owner AND e.stream = v.stream AND e.version BETWEEN v.first AND v_last;
        GET DIAGNOSTICS v_n = ROW_COUNT;
        v_gone := v_gone + v_n;
        -- One that is not there yet is not older than now.
        UPDATE windrow.snapshots s
           SET first = v_last + 1, oldest_at = coalesce(
                   (SELECT e.at FROM windrow.events e
                     WHERE e.owner = s.owner AND e.stream = s.stream AND e.version = v_last + 1), v_now)
         WHERE s.owner = v.owner AND s.stream = v.stream;
    END LOOP;
    RETURN v_gone;
END $$;
