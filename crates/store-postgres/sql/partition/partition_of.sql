-- The partition of a stream, as the domain computes it: the first four bytes of SHA-256 over owner, a zero byte and name.
CREATE FUNCTION {fn}.partition_of(p_owner text, p_name text, p_count int)
RETURNS int LANGUAGE sql STABLE AS $$
    SELECT /* partition/partition_of */
           (('x' || encode(substr(sha256(convert_to(p_owner, 'UTF8') || '\x00'::bytea || convert_to(p_name, 'UTF8')), 1, 4),
             'hex'))::bit(32)::bigint % p_count)::int
$$;
