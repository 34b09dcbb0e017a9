-- Refuses an id, a kind, a payload or headers that are absent or too large. WR400. Headers are an object of texts.
CREATE FUNCTION {fn}.check_body(p_id text, p_kind text, p_payload bytea, p_headers jsonb)
RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN /* app/check_body */
    PERFORM {fn}.check_text('id', p_id, 256, false);
    PERFORM {fn}.check_text('kind', p_kind, 256, false);
    IF p_payload IS NULL OR length(p_payload) > 1048576 THEN
        RAISE EXCEPTION 'payload must have at most 1048576 bytes' USING ERRCODE = 'WR400';
    END IF;
    IF p_headers IS NOT NULL AND (jsonb_typeof(p_headers) <> 'object'
        OR EXISTS (SELECT 1 FROM jsonb_each(CASE jsonb_typeof(p_headers) WHEN 'object' THEN p_headers ELSE '{}' END) h
                    WHERE jsonb_typeof(h.value) <> 'string')) THEN
        RAISE EXCEPTION 'headers must be an object of texts' USING ERRCODE = 'WR400';
    END IF;
    IF (SELECT sum(octet_length(h.key) + octet_length(h.value)) FROM jsonb_each_text(p_headers) h) > 16384 THEN
        RAISE EXCEPTION 'headers must have at most 16384 bytes' USING ERRCODE = 'WR400';
    END IF;
END $$;
