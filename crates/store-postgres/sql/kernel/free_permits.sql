-- Lines left a lease: their permits are idle again. Permit rows sorted, after lanes and batches; the target's row is
-- the claims' to touch.
CREATE FUNCTION {fn}.free_permits(p_targets text[], p_instances uuid[], p_counts int[])
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v record;
BEGIN /* kernel/free_permits */
    IF NOT EXISTS (SELECT 1 FROM windrow.targets WHERE target = ANY (p_targets)) THEN
        RETURN;
    END IF;
    FOR v IN SELECT t, i, sum(n)::int AS n FROM unnest(p_targets, p_instances, p_counts) u(t, i, n)
             GROUP BY t, i ORDER BY t, i LOOP
        UPDATE windrow.permits SET used = greatest(used - v.n, 0) WHERE target = v.t AND instance_id = v.i;
    END LOOP;
END $$;
