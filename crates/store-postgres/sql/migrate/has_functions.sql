-- Whether this build's functions are there.
SELECT /* migrate/has_functions */ EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1)
