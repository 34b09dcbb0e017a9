-- Locks a stream, makes it if need be, and gives the place behind its end. WR412 before the set-up.
CREATE FUNCTION {fn}.lock_stream(p_now timestamptz, p_owner text, p_queue smallint, p_name text)
RETURNS windrow.streams LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    v_count  int;
    v_stream windrow.streams;
BEGIN /* message/lock_stream */
    SELECT partitions INTO v_count FROM windrow.message_setup WHERE one;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'messages are not set up here' USING ERRCODE = 'WR412';
    END IF;
    INSERT INTO windrow.streams AS s (owner, queue, name, partition, position, touched_at)
    VALUES (p_owner, p_queue, p_name, {fn}.partition_of(p_owner, p_name, v_count), 1, coalesce(p_now, clock_timestamp()))
    ON CONFLICT (owner, queue, name) DO UPDATE
       SET position = s.position + excluded.position, touched_at = excluded.touched_at
    RETURNING s.* INTO v_stream;
    RETURN v_stream;
END $$;
