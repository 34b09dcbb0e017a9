-- Lines left a lease: their permits are free again. Permit rows sorted, then target rows; after lanes and batches.
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
    -- A limit that was lowered below what is granted: permits end instead of becoming idle.
    FOR v IN SELECT t, i, sum(n)::int AS n FROM unnest(p_targets, p_instances, p_counts) u(t, i, n)
               JOIN windrow.targets w ON w.target = t AND w.granted > w.in_flight_max
             GROUP BY t, i ORDER BY t, i LOOP
        UPDATE windrow.permits p SET granted = greatest(p.granted - v.n, p.used)
         WHERE p.target = v.t AND p.instance_id = v.i;
        UPDATE windrow.targets w
           SET granted = (SELECT coalesce(sum(p.granted), 0) FROM windrow.permits p WHERE p.target = v.t)
         WHERE w.target = v.t;
    END LOOP;
END $$;
