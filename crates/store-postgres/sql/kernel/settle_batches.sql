-- Settles each of the batches, sorted; returns those it flipped to finalizing.
CREATE FUNCTION {fn}.settle_batches(p_now timestamptz, p_batches uuid[])
RETURNS uuid[] LANGUAGE plpgsql AS $$
DECLARE
    v_batch   uuid;
    v_flipped uuid[] := '{}';
BEGIN /* kernel/settle_batches */
    FOR v_batch IN SELECT DISTINCT b FROM unnest(p_batches) b ORDER BY b LOOP
        IF {fn}.settle_batch(p_now, v_batch) THEN
            v_flipped := v_flipped || v_batch;
        END IF;
    END LOOP;
    RETURN v_flipped;
END $$;
