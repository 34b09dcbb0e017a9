-- Tells the owners of these partitions that sleep. A notification takes a lock of the whole server at commit, so those
-- who are awake are not told.
CREATE FUNCTION {fn}.wake(p_partitions int[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN /* wake/wake */
    IF EXISTS (SELECT 1 FROM windrow.sleepers) THEN
        PERFORM pg_notify('windrow_' || replace(o.instance::text, '-', ''), 'w')
           FROM (SELECT DISTINCT p.instance FROM windrow.partitions p
                   JOIN windrow.sleepers s ON s.instance = p.instance
                  WHERE p.no = ANY (p_partitions)) o;
    END IF;
END $$;
