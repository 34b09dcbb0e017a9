-- The least that each role needs. {app}: sends and appends with the functions for that, and nothing else. {monitor}: reads
-- everything but the keys and the secret of their marks, and changes nothing. {admin}: everything. Run it again after every migration.
GRANT /* app/grants */ USAGE ON SCHEMA windrow TO {app}, {monitor};
GRANT EXECUTE ON FUNCTION
    windrow.send(text, text, text, text, bytea, text, jsonb, timestamptz, text[], boolean),
    windrow.append(text, text, text, bytea, bigint, text, jsonb) TO {app}, {admin};
GRANT SELECT ON ALL TABLES IN SCHEMA windrow TO {monitor};
REVOKE ALL ON windrow.keys, windrow.mark_secret FROM {monitor};
GRANT SELECT ON windrow_schema_history TO {monitor}, {admin};
GRANT USAGE ON SCHEMA {fn} TO {monitor}, {admin};
GRANT USAGE ON SCHEMA windrow TO {admin};
GRANT ALL ON ALL TABLES IN SCHEMA windrow TO {admin};
GRANT ALL ON ALL SEQUENCES IN SCHEMA windrow TO {admin};
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {fn} TO {admin};
