-- Counts the repeat of a call, also of one in the archive; false when there is none. WR409 for another question. Who waits
-- for an answer that is still to come is told from now on.
CREATE FUNCTION {fn}.repeat_call(p_owner text, p_request text, p_hash bytea, p_waiter uuid)
RETURNS boolean LANGUAGE plpgsql SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_hash bytea;
BEGIN /* call/repeat_call */
    UPDATE windrow.calls c
       SET retry_count = c.retry_count + 1,
           waiter = CASE WHEN c.state < 2 THEN coalesce(p_waiter, c.waiter) ELSE c.waiter END
     WHERE c.owner = p_owner AND c.request_id = p_request RETURNING c.hash INTO v_hash;
    IF NOT FOUND THEN
        UPDATE windrow.calls_archive c SET retry_count = c.retry_count + 1
         WHERE c.owner = p_owner AND c.request_id = p_request RETURNING c.hash INTO v_hash;
    END IF;
    IF v_hash <> p_hash THEN
        RAISE EXCEPTION 'request id % was used for another call', p_request USING ERRCODE = 'WR409';
    END IF;
    RETURN v_hash IS NOT NULL;
END $$;
