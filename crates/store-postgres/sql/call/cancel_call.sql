-- Ends a call without an answer; nothing when it was cancelled before. WR404 when it is not there, WR409 when it has
-- another answer. Locks the call, then its message: as a commit does.
CREATE FUNCTION {fn}.cancel_call(p_now timestamptz, p_owner text, p_request text, p_error text, p_cancelled text)
RETURNS void LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    v record;
BEGIN /* call/cancel_call */
    SELECT c.state, c.error, c.object_type || '/' || c.object_id AS stream INTO v
      FROM windrow.calls c WHERE c.owner = p_owner AND c.request_id = p_request FOR UPDATE;
    IF NOT FOUND THEN
        SELECT c.state, c.error, NULL AS stream INTO v
          FROM windrow.calls_archive c WHERE c.owner = p_owner AND c.request_id = p_request;
    END IF;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'call % is not there', p_request USING ERRCODE = 'WR404';
    ELSIF v.state < 2 THEN
        PERFORM {fn}.end_unanswered(p_now, ARRAY[p_owner], ARRAY[p_request], ARRAY[v.stream], p_error, NULL);
    ELSIF v.state <> 3 OR NOT starts_with(v.error, p_cancelled) THEN
        RAISE EXCEPTION 'call % has its answer', p_request USING ERRCODE = 'WR409';
    END IF;
END $$;
