-- Sends a message in the caller's own transaction; gives its position in the stream. For applications: stable, and run
-- with the rights of whoever migrated, so that EXECUTE is all that a caller needs. Holds the stream until the
-- transaction ends. WR400: an argument is wrong; WR409: the id was used for another message; WR412: not set up.
CREATE OR REPLACE FUNCTION windrow.send(
    queue text, owner text, stream text, kind text, payload bytea, id text DEFAULT NULL, headers jsonb DEFAULT NULL,
    not_before timestamptz DEFAULT NULL, consumers text[] DEFAULT NULL, dedupe boolean DEFAULT false
) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    v_id    text := coalesce(send.id, gen_random_uuid()::text);
    v_queue smallint := CASE send.queue WHEN 'inbox' THEN 0 WHEN 'outbox' THEN 1 END;
    v_once  boolean := coalesce(send.dedupe, false) OR v_queue = 0;
    v_name  text;
    v_put   record;
BEGIN /* app/send */
    IF v_queue IS NULL THEN
        RAISE EXCEPTION 'queue must be inbox or outbox' USING ERRCODE = 'WR400';
    END IF;
    PERFORM {fn}.check_text('owner', send.owner, 256, true);
    PERFORM {fn}.check_text('stream', send.stream, 256, true);
    PERFORM {fn}.check_body(v_id, send.kind, send.payload, send.headers);
    IF array_ndims(send.consumers) > 1 THEN
        RAISE EXCEPTION 'consumers must be one list' USING ERRCODE = 'WR400';
    END IF;
    IF cardinality(send.consumers) > 8 THEN
        RAISE EXCEPTION 'a message has at most 8 consumers' USING ERRCODE = 'WR400';
    END IF;
    IF cardinality(send.consumers) > (SELECT count(DISTINCT c) FROM unnest(send.consumers) c) THEN
        RAISE EXCEPTION 'a consumer is named twice, or is null' USING ERRCODE = 'WR400';
    END IF;
    -- Years that every reader can say; infinity is none.
    IF send.not_before NOT BETWEEN '0001-01-01 00:00:00Z' AND '9999-12-30 00:00:00Z' THEN
        RAISE EXCEPTION 'not_before must be a time in the years 1 to 9999' USING ERRCODE = 'WR400';
    END IF;
    FOREACH v_name IN ARRAY coalesce(send.consumers, '{}') LOOP
        PERFORM {fn}.check_text('consumer', v_name, 256, false);
    END LOOP;
    SELECT * INTO v_put FROM {fn}.put_messages(
        NULL, ARRAY[send.owner], ARRAY[v_queue], ARRAY[send.stream], ARRAY[1],
        ARRAY[{fn}.stream_hash(send.owner, send.stream)], NULL,
        ARRAY[1], ARRAY[0], ARRAY[v_id], ARRAY[send.kind], ARRAY[send.payload], ARRAY[nullif(send.headers, '{}')::text],
        ARRAY[send.not_before], ARRAY[nullif(to_jsonb(send.consumers), '[]')::text],
        CASE WHEN v_once THEN ARRAY[1] ELSE '{}' END,
        CASE WHEN v_once THEN ARRAY[send.owner] ELSE '{}' END,
        CASE WHEN v_once THEN ARRAY[v_queue] ELSE '{}' END,
        CASE WHEN v_once THEN ARRAY[v_id] ELSE '{}' END,
        CASE WHEN v_once THEN ARRAY[sha256(convert_to(send.queue, 'UTF8') || '\x00'::bytea || convert_to(send.stream, 'UTF8')
                                           || '\x00'::bytea || convert_to(send.kind, 'UTF8') || '\x00'::bytea
                                           || send.payload)] ELSE '{}' END);
    RETURN coalesce(v_put.r_position[1], v_put.o_position[1]);
END $$;
