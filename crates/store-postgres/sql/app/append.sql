-- Appends an event in the caller's own transaction; gives its version. For applications, as windrow.send. expected: the
-- stream's last version, 0 for none; null for whatever it is. The feed of all events lags behind the transaction.
-- WR400: an argument is wrong; WR419: the stream is at another version (detail: [stream, expected, actual]).
CREATE OR REPLACE FUNCTION windrow.append(
    owner text, stream text, kind text, payload bytea, expected bigint DEFAULT NULL, id text DEFAULT NULL,
    headers jsonb DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    v_id  text := coalesce(append.id, gen_random_uuid()::text);
    v_put bigint[];
BEGIN /* app/append */
    PERFORM {fn}.check_text('owner', append.owner, 256, true);
    PERFORM {fn}.check_text('stream', append.stream, 256, true);
    PERFORM {fn}.check_body(v_id, append.kind, append.payload, append.headers);
    IF append.expected < 0 THEN
        RAISE EXCEPTION 'expected must be a version, 0 for none' USING ERRCODE = 'WR400';
    END IF;
    v_put := {fn}.append_events(
        NULL, ARRAY[append.owner], ARRAY[append.stream], ARRAY[1], ARRAY[1], ARRAY[0], ARRAY[1], ARRAY[append.expected],
        ARRAY[1], ARRAY[1], ARRAY[v_id], ARRAY[append.kind], ARRAY[append.payload],
        ARRAY[nullif(append.headers, '{}')::text]);
    RETURN v_put[1] + 1;
END $$;
