-- Batches that wait to be closed and that nobody is closing, or somebody who is tombstoned, oldest first; flips any
-- that the folds should have flipped first (the same test, the same path).
CREATE FUNCTION {fn}.find_unclosed(p_now timestamptz, p_limit int)
RETURNS SETOF uuid LANGUAGE plpgsql AS $$
DECLARE
    v_now timestamptz := coalesce(p_now, clock_timestamp());
BEGIN /* finalise/find_unclosed */
    PERFORM {fn}.settle_batches(v_now, ARRAY(
        SELECT b.id FROM windrow.batches b
         WHERE b.state IN ('in_progress', 'paused', 'cancelling', 'expiring') AND b.deleted_at IS NULL
           AND NOT EXISTS (SELECT 1 FROM windrow.batch_lanes l WHERE l.batch_id = b.id AND l.phase <> 'done')
         ORDER BY b.id LIMIT p_limit));
    RETURN QUERY
    SELECT b.id FROM windrow.batches b
     WHERE b.state IN ('finalizing_completed', 'finalizing_cancelled', 'finalizing_expired') AND b.deleted_at IS NULL
       AND (b.final_until IS NULL OR b.final_until <= v_now
            OR EXISTS (SELECT 1 FROM windrow.members m WHERE m.instance_id = b.final_by AND m.tombstoned_at IS NOT NULL))
     ORDER BY b.finalizing_at, b.id LIMIT p_limit;
END $$;
