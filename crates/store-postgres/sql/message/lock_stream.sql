-- Locks a stream, makes it if need be, and draws the place behind its end. WR412 before the set-up.
CREATE FUNCTION {fn}.lock_stream(
    p_now timestamptz, p_owner text, p_queue smallint, p_name text, OUT no bigint, OUT partition int, OUT "position" bigint
) LANGUAGE plpgsql SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    v_count int;
BEGIN /* message/lock_stream */
    SELECT partitions INTO v_count FROM windrow.message_setup WHERE one;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'messages are not set up here' USING ERRCODE = 'WR412';
    END IF;
    INSERT INTO windrow.streams AS s (owner, queue, name, partition, touched_at)
    VALUES (p_owner, p_queue, p_name, {fn}.partition_of(p_owner, p_name, v_count), coalesce(p_now, clock_timestamp()))
    ON CONFLICT (owner, queue, name) DO UPDATE SET touched_at = excluded.touched_at
    RETURNING s.no, s.partition INTO lock_stream.no, lock_stream.partition;
    -- Behind the lock: who comes later draws a greater number.
    lock_stream.position := nextval('windrow.message_positions') * 1024;
END $$;
