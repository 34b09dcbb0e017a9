-- Work that one instance at a time does, such as a sweep: who has it, and until when.
CREATE TABLE duties (
    name        TEXT    NOT NULL PRIMARY KEY,
    instance_id BLOB    NOT NULL,
    until       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
