-- Gives an instance's leases back untried: the named ones (p_named), or all but the named ones.
CREATE FUNCTION {fn}.release_leases(p_now timestamptz, p_instance uuid, p_leases uuid[], p_named boolean)
RETURNS TABLE (released uuid[], lines bigint) LANGUAGE plpgsql AS $$
BEGIN /* claim/release_leases */
    SELECT coalesce(array_agg(h.id), '{}') INTO released
      FROM (SELECT l.id FROM windrow.leases l
             WHERE l.instance_id = p_instance AND (l.id = ANY (p_leases)) = p_named
             ORDER BY l.id FOR UPDATE) h;
    SELECT g.returned INTO lines
      FROM {fn}.give_back(coalesce(p_now, clock_timestamp()), released, NULL) g;
    RETURN NEXT;
END $$;
