-- Fixes how messages are run; of what is fixed already, only the types and the lifecycle change.
INSERT INTO message_setup /* partition/set_up */ (one, service, partitions, object_types, lifecycle)
VALUES (1, ?1, ?2, ?3, ?4)
ON CONFLICT (one) DO UPDATE SET object_types = excluded.object_types, lifecycle = excluded.lifecycle
