-- Calls, newest first. $7: how long those without an answer are processed. $12: the state, when only one is asked for: by
-- calls_by_state they come in their order. Behind call/plan_anew: of the indexes by object, instance, state, owner and
-- time, the one that fits the filters is used.
SELECT /* call/calls */ owner, request_id, object_type, object_id, method, args, state, policy, reply, error, retry_count,
       instance, caller_object, caller_client, created_at, updated_at, processed_at, expires_at, false AS is_archived
  FROM windrow.calls
 WHERE ($2::text IS NULL OR owner || '' = $2)
   AND ($3::text IS NULL OR (object_type = $3 AND object_id = $4))
   AND ($5::smallint[] IS NULL OR state = ANY ($5))
   AND ($6::uuid IS NULL OR instance = $6)
   AND ($7::bigint IS NULL OR (state = 1 AND updated_at <= coalesce($1, now()) - $7 * interval '1 ms'))
   AND ($8::timestamptz IS NULL OR (created_at, owner, request_id) < ($8, $9, $10))
   AND ($12::smallint IS NULL OR state = $12)
 ORDER BY created_at DESC, owner DESC, request_id DESC LIMIT $11
