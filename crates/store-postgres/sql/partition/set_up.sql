-- Fixes the service and the number of partitions, or checks them; WR409 when others are fixed. Of several at once, one
-- inserts and the others wait for it. Object types and lifecycle become the caller's and those of the service's live
-- members together. The members are read behind the lock: of two who registered, whoever comes second sees the first.
CREATE FUNCTION {fn}.set_up(p_service text, p_partitions int, p_object_types text[], p_lifecycle boolean)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v           windrow.message_setup;
    v_serving   jsonb;
    v_types     text[];
    v_lifecycle boolean;
BEGIN /* partition/set_up */
    INSERT INTO windrow.message_setup (service, partitions, object_types, lifecycle)
    VALUES (p_service, p_partitions, p_object_types, p_lifecycle) ON CONFLICT DO NOTHING;
    IF FOUND THEN
        INSERT INTO windrow.partitions (no) SELECT generate_series(0, p_partitions - 1);
    END IF;
    SELECT * INTO v FROM windrow.message_setup FOR UPDATE;
    IF v.service <> p_service OR v.partitions <> p_partitions THEN
        RAISE EXCEPTION 'service % with % partitions is set up here, not % with %',
            v.service, v.partitions, p_service, p_partitions USING ERRCODE = 'WR409';
    END IF;
    SELECT coalesce(jsonb_agg({fn}.serving(m.metadata)), '[]') INTO v_serving
      FROM windrow.members m WHERE m.service = p_service AND m.tombstoned_at IS NULL;
    SELECT coalesce(array_agg(t.name ORDER BY t.name COLLATE "C"), '{}') INTO v_types
      FROM (SELECT unnest(p_object_types) AS name
             UNION
            SELECT s.type #>> '{}' FROM jsonb_path_query(v_serving, '$[*].object_types[*]') s(type)) t;
    v_lifecycle := p_lifecycle OR jsonb_path_exists(v_serving, '$[*] ? (@.lifecycle == true)');
    UPDATE windrow.message_setup SET object_types = v_types, lifecycle = v_lifecycle
     WHERE (object_types, lifecycle) IS DISTINCT FROM (v_types, v_lifecycle);
END $$;
