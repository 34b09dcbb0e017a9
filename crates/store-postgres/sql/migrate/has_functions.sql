-- Whether the caller may use this build's functions. No row when they are not there.
SELECT /* migrate/has_functions */ has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = $1::text
