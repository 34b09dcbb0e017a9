-- A call, also from the archive.
SELECT /* call/call */ owner, request_id, object_type, object_id, method, args, state, policy, reply, error, retry_count,
       instance, caller_object, caller_client, created_at, updated_at, processed_at, expires_at, false AS is_archived
  FROM windrow.calls WHERE owner = $1 AND request_id = $2
UNION ALL
SELECT owner, request_id, object_type, object_id, method, args, state, policy, reply, error, retry_count,
       instance, caller_object, caller_client, created_at, updated_at, processed_at, expires_at, true
  FROM windrow.calls_archive WHERE owner = $1 AND request_id = $2
