-- What a stream's partition follows from, as the domain computes it: the first four bytes of SHA-256 over owner, a zero byte
-- and name, as a number.
CREATE FUNCTION {fn}.stream_hash(p_owner text, p_name text)
RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT /* partition/stream_hash */
           ('x' || encode(substr(sha256(convert_to(p_owner, 'UTF8') || '\x00'::bytea || convert_to(p_name, 'UTF8')), 1, 4),
            'hex'))::bit(32)::bigint
$$;
