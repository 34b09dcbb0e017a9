-- How the rows of a file are read, and the size of what it was cut from; the name of that in the storage is `place`, as
-- it is of an output.
ALTER TABLE windrow.files ADD COLUMN head text;
ALTER TABLE windrow.files ADD COLUMN original_bytes bigint;
-- What a batch makes of the rows of its file, from a generation on; and the hash of what it was made with.
CREATE TABLE windrow.batch_recipes (
    batch_id   uuid NOT NULL,
    generation int NOT NULL,
    text       text NOT NULL,
    PRIMARY KEY (batch_id, generation)
);
ALTER TABLE windrow.batches ADD COLUMN recipe_hash bytea;
