-- Fixes an open file; a repeat finds it fixed already. A file without a request cannot be valid (WR400).
CREATE FUNCTION {fn}.seal_file(p_now timestamptz, p_file uuid, p_state text, p_errors text, p_endpoint text)
RETURNS SETOF windrow.files LANGUAGE plpgsql AS $$
DECLARE
    v_file windrow.files;
BEGIN /* ingest/seal_file */
    SELECT * INTO v_file FROM windrow.files WHERE id = p_file FOR UPDATE;
    IF NOT FOUND OR v_file.state = 'dropped' THEN
        RETURN;
    END IF;
    IF v_file.state = 'open' THEN
        IF p_state = 'sealed' AND v_file.lines = 0 THEN
            RAISE EXCEPTION 'file % has no request', p_file USING ERRCODE = 'WR400';
        END IF;
        UPDATE windrow.files
           SET state = p_state, errors = p_errors, endpoint = p_endpoint, sealed_at = coalesce(p_now, clock_timestamp())
         WHERE id = p_file RETURNING * INTO v_file;
    ELSIF v_file.state <> p_state THEN
        RAISE EXCEPTION 'file % is % already', p_file, v_file.state USING ERRCODE = 'WR409';
    END IF;
    RETURN NEXT v_file;
END $$;
