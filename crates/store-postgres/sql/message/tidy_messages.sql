-- Tidies up to p_limit rows of each kind away, and skips what somebody else is at. An id stays as long as its message is on
-- its way or among the dead letters. A stream goes only under its lock, without messages. Expired calls leave a
-- tombstone without arguments and answer; unanswered ones are ended by call/expire_calls. So do answers that the archive
-- has kept for p_archived_ms, if that is given: uses calls_archive_kept.
CREATE FUNCTION {fn}.tidy_messages(
    p_now timestamptz, p_dedupe_ms bigint, p_archive_ms bigint, p_tombstone_ms bigint, p_dead_ms bigint,
    p_stream_ms bigint, p_limit bigint, p_archived_ms bigint,
    OUT ids bigint, OUT archived bigint, OUT expired bigint, OUT tombstones bigint, OUT dead bigint, OUT streams bigint
) LANGUAGE plpgsql SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    v_now     timestamptz := coalesce(p_now, clock_timestamp());
    v_ms      interval := interval '1 ms';
    v_n       bigint;
    v_streams bigint[];
BEGIN /* message/tidy_messages */
    WITH old AS (
        SELECT x.owner, x.queue, x.id FROM windrow.message_ids x
         WHERE x.seen_at <= v_now - p_dedupe_ms * v_ms
           AND NOT EXISTS (SELECT 1 FROM windrow.messages m WHERE m.partition = x.partition
                              AND m.stream_no = x.stream_no AND m.position = x.position)
           AND NOT EXISTS (SELECT 1 FROM windrow.dead_letters d WHERE d.owner = x.owner AND d.message_id = x.id
                              AND d.queue = x.queue)
         ORDER BY x.seen_at LIMIT p_limit FOR UPDATE OF x SKIP LOCKED)
    DELETE FROM windrow.message_ids x USING old
     WHERE x.owner = old.owner AND x.queue = old.queue AND x.id = old.id;
    GET DIAGNOSTICS ids = ROW_COUNT;

    WITH old AS (
        SELECT c.owner, c.request_id FROM windrow.calls_archive c
         WHERE c.state = 4 AND c.updated_at <= v_now - p_tombstone_ms * v_ms
         ORDER BY c.updated_at LIMIT p_limit FOR UPDATE SKIP LOCKED)
    DELETE FROM windrow.calls_archive c USING old WHERE c.owner = old.owner AND c.request_id = old.request_id;
    GET DIAGNOSTICS tombstones = ROW_COUNT;

    WITH old AS (
        SELECT c.owner, c.request_id FROM windrow.calls_archive c
         WHERE c.expires_at <= v_now AND c.state < 4 ORDER BY c.expires_at LIMIT p_limit FOR UPDATE SKIP LOCKED)
    UPDATE windrow.calls_archive c SET state = 4, args = '', reply = NULL, error = NULL, updated_at = v_now
      FROM old WHERE c.owner = old.owner AND c.request_id = old.request_id;
    GET DIAGNOSTICS expired = ROW_COUNT;
    WITH old AS (
        SELECT c.owner, c.request_id FROM windrow.calls c
         WHERE c.expires_at <= v_now AND c.state >= 2 ORDER BY c.expires_at LIMIT p_limit - expired FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM windrow.calls c USING old WHERE c.owner = old.owner AND c.request_id = old.request_id RETURNING c.*
    )
    INSERT INTO windrow.calls_archive
           (owner, request_id, object_type, object_id, method, hash, args, state, policy, retry_count, instance,
            caller_object, caller_client, created_at, updated_at, processed_at, expires_at, archived_at)
    SELECT owner, request_id, object_type, object_id, method, hash, '', 4, policy, retry_count, instance,
           caller_object, caller_client, created_at, v_now, processed_at, expires_at, v_now FROM gone;
    GET DIAGNOSTICS v_n = ROW_COUNT;
    expired := expired + v_n;
    IF p_archived_ms IS NOT NULL THEN
        WITH old AS (
            SELECT c.owner, c.request_id FROM windrow.calls_archive c
             WHERE c.processed_at <= v_now - p_archived_ms * v_ms AND c.state < 4
             ORDER BY c.processed_at LIMIT p_limit - expired FOR UPDATE SKIP LOCKED)
        UPDATE windrow.calls_archive c SET state = 4, args = '', reply = NULL, error = NULL, updated_at = v_now
          FROM old WHERE c.owner = old.owner AND c.request_id = old.request_id;
        GET DIAGNOSTICS v_n = ROW_COUNT;
        expired := expired + v_n;
    END IF;

    WITH old AS (
        SELECT c.owner, c.request_id FROM windrow.calls c
         WHERE c.processed_at <= v_now - p_archive_ms * v_ms ORDER BY c.processed_at LIMIT p_limit FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM windrow.calls c USING old WHERE c.owner = old.owner AND c.request_id = old.request_id RETURNING c.*
    )
    INSERT INTO windrow.calls_archive
           (owner, request_id, object_type, object_id, method, hash, args, state, policy, reply, error, retry_count,
            instance, waiter, caller_object, caller_client, created_at, updated_at, processed_at, expires_at, archived_at)
    SELECT owner, request_id, object_type, object_id, method, hash, args, state, policy, reply, error, retry_count,
           instance, waiter, caller_object, caller_client, created_at, updated_at, processed_at, expires_at, v_now FROM gone;
    GET DIAGNOSTICS archived = ROW_COUNT;

    WITH old AS (
        SELECT d.id FROM windrow.dead_letters d WHERE d.dead_at <= v_now - p_dead_ms * v_ms
         ORDER BY d.dead_at LIMIT p_limit FOR UPDATE SKIP LOCKED)
    DELETE FROM windrow.dead_letters d USING old WHERE d.id = old.id;
    GET DIAGNOSTICS dead = ROW_COUNT;

    v_streams := ARRAY(
        SELECT s.no FROM windrow.streams s
         WHERE s.touched_at <= v_now - p_stream_ms * v_ms
         ORDER BY s.touched_at LIMIT p_limit FOR UPDATE OF s SKIP LOCKED);
    -- Looked at behind the locks, with a new snapshot: somebody may have sent before them.
    DELETE FROM windrow.streams s
     WHERE s.no = ANY (v_streams)
       AND NOT EXISTS (SELECT 1 FROM windrow.messages m WHERE m.partition = s.partition AND m.stream_no = s.no);
    GET DIAGNOSTICS streams = ROW_COUNT;
    -- Those with messages are looked at again when it is time.
    UPDATE windrow.streams s SET touched_at = v_now WHERE s.no = ANY (v_streams);

    DELETE FROM windrow.sleepers s
     WHERE NOT EXISTS (SELECT 1 FROM windrow.members m WHERE m.instance_id = s.instance AND m.tombstoned_at IS NULL);
END $$;
