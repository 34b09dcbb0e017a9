-- Ends up to p_limit calls that wait though their time is over, the oldest first; those that somebody is at are skipped, so
-- that it waits for no lock. Uses calls_expiring: a call that is answered late gets a later time, so few of those passed
-- have an answer.
CREATE FUNCTION {fn}.expire_calls(p_now timestamptz, p_limit bigint, p_error text, p_last text)
RETURNS TABLE (owner text, request_id text) LANGUAGE plpgsql SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    v_now      timestamptz := coalesce(p_now, clock_timestamp());
    v_owners   text[];
    v_requests text[];
    v_streams  text[];
BEGIN /* call/expire_calls */
    SELECT coalesce(array_agg(o.owner), '{}'), coalesce(array_agg(o.request_id), '{}'), coalesce(array_agg(o.stream), '{}')
      INTO v_owners, v_requests, v_streams
      FROM (SELECT c.owner, c.request_id, c.object_type || '/' || c.object_id AS stream FROM windrow.calls c
             WHERE c.expires_at <= v_now AND c.state = 0
             ORDER BY c.expires_at LIMIT p_limit FOR UPDATE SKIP LOCKED) o;
    IF cardinality(v_owners) > 0 THEN
        PERFORM {fn}.end_unanswered(p_now, v_owners, v_requests, v_streams, p_error, p_last);
    END IF;
    RETURN QUERY SELECT u.o, u.r FROM unnest(v_owners, v_requests) u(o, r);
END $$;
