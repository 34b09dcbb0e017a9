-- A copy of a call in the archive.
INSERT INTO calls_archive /* call/archive */
    (owner, request_id, object_type, object_id, method, hash, state, policy, retry_count, instance, waiter,
     caller_object, caller_client, created_at, updated_at, processed_at, expires_at, error, reply, args, archived_at)
SELECT owner, request_id, object_type, object_id, method, hash, state, policy, retry_count, instance, waiter,
    caller_object, caller_client, created_at, updated_at, processed_at, expires_at, error, reply, args, ?3
FROM calls
WHERE owner = ?1 AND request_id = ?2
