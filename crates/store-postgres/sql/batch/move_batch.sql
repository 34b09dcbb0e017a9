-- Sends what is left of a batch to another upstream, under the locks that claims take. Leases keep the upstream that they
-- were claimed for: their holders see that it differs. False when the caller has no such batch. Locks lanes sorted, then
-- the batch.
CREATE FUNCTION {fn}.move_batch(p_owner text, p_batch uuid, p_upstream text)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN /* batch/move_batch */
    PERFORM 1 FROM windrow.batch_lanes WHERE batch_id = p_batch ORDER BY lane FOR UPDATE;
    PERFORM 1 FROM windrow.batches
      WHERE id = p_batch AND deleted_at IS NULL AND (p_owner IS NULL OR owner = p_owner) FOR KEY SHARE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE windrow.batch_lanes SET upstream = p_upstream WHERE batch_id = p_batch AND upstream <> p_upstream;
    RETURN true;
END $$;
