-- How the rows of a file are read, and the size of what it was cut from; the name of that in the storage is `place`, as
-- it is of an output.
ALTER TABLE files ADD COLUMN head TEXT;
ALTER TABLE files ADD COLUMN original_bytes INTEGER;
-- What a batch makes of the rows of its file, from a generation on; and the hash of what it was made with.
CREATE TABLE batch_recipes (
    batch_id   BLOB    NOT NULL,
    generation INTEGER NOT NULL,
    text       TEXT    NOT NULL,
    PRIMARY KEY (batch_id, generation)
) STRICT, WITHOUT ROWID;
ALTER TABLE batches ADD COLUMN recipe_hash BLOB;
