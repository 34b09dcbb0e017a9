-- Adds a set to a lane's returned rows: to a row of the same bucket while its text stays small, else as a new row.
-- The caller holds the lane's lock.
CREATE FUNCTION {fn}.add_returned(
    p_now timestamptz, p_batch uuid, p_lane smallint, p_attempts int, p_crashes int, p_tranche_max int,
    p_not_before timestamptz, p_lines text, p_n int
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN /* kernel/add_returned */
    -- At once means the bucket that now falls in, so that what comes back together waits together.
    p_not_before := coalesce(p_not_before, date_bin('250 ms', p_now, 'epoch'));
    UPDATE windrow.returned r
       SET lines = r.lines || ',' || p_lines, n = r.n + p_n, updated_at = p_now
     WHERE r.batch_id = p_batch AND r.lane = p_lane AND r.id = (
        SELECT o.id FROM windrow.returned o
         WHERE o.batch_id = p_batch AND o.lane = p_lane AND o.not_before = p_not_before
           AND o.attempts = p_attempts AND o.crashes = p_crashes
           AND o.tranche_max IS NOT DISTINCT FROM p_tranche_max
           AND length(o.lines) + length(p_lines) < 4096
         ORDER BY o.id LIMIT 1);
    IF NOT FOUND THEN
        INSERT INTO windrow.returned
            (batch_id, lane, attempts, crashes, tranche_max, not_before, lines, n, updated_at)
        VALUES (p_batch, p_lane, p_attempts, p_crashes, p_tranche_max, p_not_before, p_lines, p_n, p_now);
    END IF;
END $$;
