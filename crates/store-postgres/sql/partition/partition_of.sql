-- The partition of a stream, as the domain computes it.
CREATE FUNCTION {fn}.partition_of(p_owner text, p_name text, p_count int)
RETURNS int LANGUAGE sql STABLE AS $$
    SELECT /* partition/partition_of */ ({fn}.stream_hash(p_owner, p_name) % p_count)::int
$$;
