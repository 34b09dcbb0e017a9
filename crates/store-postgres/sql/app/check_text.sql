-- Refuses a text that is absent, empty or too long; with p_name, also one with a control character. WR400.
CREATE FUNCTION {fn}.check_text(p_what text, p_text text, p_bytes_max int, p_name boolean)
RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN /* app/check_text */
    IF p_text IS NULL OR p_text = '' OR octet_length(p_text) > p_bytes_max
        OR (p_name AND p_text ~ '[\u0001-\u001f\u007f-\u009f]') THEN
        RAISE EXCEPTION '% must have 1 to % bytes%', p_what, p_bytes_max,
            CASE WHEN p_name THEN ' and no control characters' ELSE '' END USING ERRCODE = 'WR400';
    END IF;
END $$;
