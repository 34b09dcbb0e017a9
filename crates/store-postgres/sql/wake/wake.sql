-- Tells the owners of these partitions that sleep which of theirs have something new, or that some have when there are
-- many. A notification takes a lock of the whole server at commit, so those who are awake are not told; nor is p_but, who
-- knows.
CREATE FUNCTION {fn}.wake(p_partitions int[], p_but uuid DEFAULT NULL)
RETURNS void LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
BEGIN /* wake/wake */
    IF EXISTS (SELECT 1 FROM windrow.sleepers s WHERE s.instance IS DISTINCT FROM p_but) THEN
        PERFORM pg_notify('windrow_' || replace(o.instance::text, '-', ''), 'w' || CASE WHEN o.n > 100 THEN '' ELSE o.nos END)
           FROM (SELECT p.instance, count(*) AS n, string_agg(p.no::text, ',') AS nos FROM windrow.partitions p
                   JOIN windrow.sleepers s ON s.instance = p.instance
                  WHERE p.no = ANY (p_partitions) AND p.instance IS DISTINCT FROM p_but GROUP BY p.instance) o;
    END IF;
END $$;
