-- Ends calls that nobody answers any more: each fails with its error, and its message goes, so that what a handler returns
-- for it later is refused. Tells those who wait elsewhere. Behind locks of these calls, which are unanswered. The messages are
-- found in their objects' streams, each stream read once.
CREATE FUNCTION {fn}.end_unanswered(
    p_now timestamptz, c_owner text[], c_request text[], c_stream text[], p_error text, p_last text
) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    v_n   int;
BEGIN /* call/end_unanswered */
    WITH gone AS (
        DELETE FROM windrow.messages m
         USING unnest(c_owner, c_request, c_stream) u(owner, request, name), windrow.streams s
         WHERE s.owner = u.owner AND s.queue = 2 AND s.name = u.name
           AND m.partition = s.partition AND m.stream_no = s.no AND m.id = u.request
        RETURNING u.owner, u.request, m.error
    ), ended AS (
        UPDATE windrow.calls c
           SET state = 3, reply = NULL, error = left(p_error || coalesce(p_last || g.error, ''), 2000),
               processed_at = v_now, updated_at = v_now,
               expires_at = CASE WHEN c.expires_at <= v_now THEN v_now + interval '1 day' ELSE c.expires_at END
          FROM unnest(c_owner, c_request) u(owner, request)
          LEFT JOIN gone g ON g.owner = u.owner AND g.request = u.request
         WHERE c.owner = u.owner AND c.request_id = u.request AND c.state < 2
        RETURNING c.waiter, 'c' || json_build_array(c.owner, c.request_id)::text AS told
    )
    SELECT count(CASE WHEN e.waiter IS NOT NULL AND octet_length(e.told) < 8000
                      THEN pg_notify('windrow_' || replace(e.waiter::text, '-', ''), e.told)::text END)
      INTO v_n FROM ended e;
END $$;
