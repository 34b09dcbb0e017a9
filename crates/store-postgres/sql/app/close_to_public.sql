-- What applications call is not for everybody: a new function is, until somebody says otherwise.
REVOKE /* app/close_to_public */ ALL ON FUNCTION
    windrow.send(text, text, text, text, bytea, text, jsonb, timestamptz, text[], boolean),
    windrow.append(text, text, text, bytea, bigint, text, jsonb) FROM PUBLIC;
