-- Writes what objects are from now on; a null state forgets one. WR400 for one whose partition is not among the fences.
-- Behind partition/fence, so nobody else writes them; sorted by bytes, each object once.
CREATE FUNCTION {fn}.put_states(p_now timestamptz, f_no int[], o_owner text[], o_stream text[], o_state bytea[])
RETURNS void LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_other text;
BEGIN /* object/put_states */
    SELECT u.stream INTO v_other
      FROM windrow.message_setup t CROSS JOIN unnest(o_owner, o_stream) u(owner, stream)
     WHERE t.one AND {fn}.partition_of(u.owner, u.stream, t.partitions) <> ALL (f_no) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'the partition of object % has no fence', v_other USING ERRCODE = 'WR400';
    END IF;
    DELETE FROM windrow.objects o WHERE o.ctid = ANY (ARRAY(
        SELECT x.ctid FROM unnest(o_owner, o_stream, o_state) u(owner, stream, state)
         CROSS JOIN LATERAL (SELECT k.ctid FROM windrow.objects k
                              WHERE k.owner = u.owner AND k.stream = u.stream LIMIT 1) x WHERE u.state IS NULL));
    INSERT INTO windrow.objects AS o (owner, stream, state, updated_at)
    SELECT u.owner, u.stream, u.state, coalesce(p_now, clock_timestamp())
      FROM unnest(o_owner, o_stream, o_state) WITH ORDINALITY u(owner, stream, state, i)
     WHERE u.state IS NOT NULL ORDER BY u.i
    ON CONFLICT (owner, stream) DO UPDATE SET state = excluded.state, updated_at = excluded.updated_at;
END $$;
