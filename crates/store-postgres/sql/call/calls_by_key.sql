-- The calls of these keys, also from the archive, in the order given.
SELECT /* call/calls_by_key */ c.* FROM unnest($1::text[], $2::text[]) WITH ORDINALITY u(owner, request, i)
 CROSS JOIN LATERAL (
    SELECT owner, request_id, object_type, object_id, method, args, state, policy, reply, error, retry_count,
           instance, caller_object, caller_client, created_at, updated_at, processed_at, expires_at, false AS is_archived
      FROM windrow.calls WHERE owner = u.owner AND request_id = u.request
    UNION ALL
    SELECT owner, request_id, object_type, object_id, method, args, state, policy, reply, error, retry_count,
           instance, caller_object, caller_client, created_at, updated_at, processed_at, expires_at, true
      FROM windrow.calls_archive WHERE owner = u.owner AND request_id = u.request LIMIT 1) c
 ORDER BY u.i
