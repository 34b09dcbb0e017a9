-- Fixes the service and the number of partitions, or checks them; WR409 when others are fixed. Of several at once, one
-- inserts and the others wait for it. Object types and lifecycle are replaced.
CREATE FUNCTION {fn}.set_up(p_service text, p_partitions int, p_object_types text[], p_lifecycle boolean)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v windrow.message_setup;
BEGIN /* partition/set_up */
    INSERT INTO windrow.message_setup (service, partitions, object_types, lifecycle)
    VALUES (p_service, p_partitions, p_object_types, p_lifecycle) ON CONFLICT DO NOTHING;
    IF FOUND THEN
        INSERT INTO windrow.partitions (no) SELECT generate_series(0, p_partitions - 1);
        RETURN;
    END IF;
    SELECT * INTO v FROM windrow.message_setup FOR UPDATE;
    IF v.service <> p_service OR v.partitions <> p_partitions THEN
        RAISE EXCEPTION 'service % with % partitions is set up here, not % with %',
            v.service, v.partitions, p_service, p_partitions USING ERRCODE = 'WR409';
    END IF;
    UPDATE windrow.message_setup SET object_types = p_object_types, lifecycle = p_lifecycle
     WHERE (object_types, lifecycle) IS DISTINCT FROM (p_object_types, p_lifecycle);
END $$;
