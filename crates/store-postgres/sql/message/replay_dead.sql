-- Sends dead letters again, in the order given, each at the end of its stream and with no tries behind it. WR404 unless all
-- are there and the owner's. Ids that count once stay with their message. Locks the letters (sorted), then streams
-- (sorted by bytes), then ids (the same).
CREATE FUNCTION {fn}.replay_dead(p_now timestamptz, p_owner text, p_ids uuid[])
RETURNS TABLE (i bigint, partition int, stream_no bigint, "position" bigint)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    v_n          int;
    v_ids        uuid[] := '{}';
    v_partitions int[] := '{}';
    v_streams    bigint[] := '{}';
    v_positions  bigint[] := '{}';
    v            record;
    w            record;
BEGIN /* message/replay_dead */
    SELECT count(*) INTO v_n
      FROM (SELECT FROM windrow.dead_letters d
             WHERE d.id = ANY (p_ids) AND (p_owner IS NULL OR d.owner = p_owner) ORDER BY d.id FOR UPDATE) l;
    IF v_n <> cardinality(p_ids) THEN
        RAISE EXCEPTION 'a dead letter is not there' USING ERRCODE = 'WR404';
    END IF;
    FOR v IN SELECT u.i, d.* FROM unnest(p_ids) WITH ORDINALITY u(id, i) JOIN windrow.dead_letters d ON d.id = u.id
              ORDER BY d.owner COLLATE "C", d.queue, d.stream COLLATE "C", u.i LOOP
        w := {fn}.lock_stream(p_now, v.owner, v.queue, v.stream);
        INSERT INTO windrow.messages (partition, stream_no, position, id, kind, payload, headers, sent_at, waiting)
        VALUES (w.partition, w.no, w.position, v.message_id, v.kind, v.payload, v.headers,
                coalesce(p_now, clock_timestamp()), v.waiting);
        v_ids := v_ids || v.id;
        v_partitions := v_partitions || w.partition;
        v_streams := v_streams || w.no;
        v_positions := v_positions || w.position;
        i := v.i; partition := w.partition; stream_no := w.no; position := w.position;
        RETURN NEXT;
    END LOOP;
    FOR v IN SELECT d.owner, d.queue, d.message_id, d.stream_no, d.position, u.partition AS to_partition, u.stream_no AS to_stream,
                    u.position AS to_position
               FROM unnest(v_ids, v_partitions, v_streams, v_positions) u(id, partition, stream_no, position)
               JOIN windrow.dead_letters d ON d.id = u.id
              ORDER BY d.owner COLLATE "C", d.queue, d.message_id COLLATE "C" LOOP
        UPDATE windrow.message_ids x
           SET partition = v.to_partition, stream_no = v.to_stream, position = v.to_position
         WHERE x.owner = v.owner AND x.queue = v.queue AND x.id = v.message_id AND x.stream_no = v.stream_no AND x.position = v.position;
    END LOOP;
    DELETE FROM windrow.dead_letters d WHERE d.id = ANY (p_ids);
    PERFORM {fn}.wake(v_partitions);
END $$;
