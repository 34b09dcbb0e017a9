-- Flips a batch to finalizing when its last lane is done. The row lock orders those who come last, so exactly one
-- of them sees it. Called after all lanes of the transaction were moved: lanes are locked before batches.
CREATE FUNCTION {fn}.settle_batch(p_now timestamptz, p_batch uuid)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN /* kernel/settle_batch */
    PERFORM 1 FROM windrow.batches WHERE id = p_batch FOR UPDATE;
    IF EXISTS (SELECT 1 FROM windrow.batch_lanes WHERE batch_id = p_batch AND phase <> 'done') THEN
        RETURN false;
    END IF;
    UPDATE windrow.batches
       SET state = CASE state WHEN 'cancelling' THEN 'finalizing_cancelled'
                              WHEN 'expiring' THEN 'finalizing_expired'
                              ELSE 'finalizing_completed' END,
           finalizing_at = p_now, final_by = NULL, final_until = NULL
     WHERE id = p_batch AND state IN ('in_progress', 'paused', 'cancelling', 'expiring');
    RETURN FOUND;
END $$;
