-- A call that nobody asked for before.
INSERT INTO calls /* call/submit_call */
    (owner, request_id, object_type, object_id, method, hash, args, state, policy, waiter,
     caller_object, caller_client, created_at, updated_at, expires_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, ?8, ?9, ?10, ?11, ?12, ?12, ?13)
