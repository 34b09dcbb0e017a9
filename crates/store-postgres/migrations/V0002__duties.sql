-- Work that one instance at a time does, such as a sweep: who has it, and until when.
CREATE TABLE windrow.duties (
    name        text PRIMARY KEY,
    instance_id uuid NOT NULL,
    until       timestamptz NOT NULL
) WITH (fillfactor = 70);
