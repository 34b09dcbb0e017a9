-- What kind of trouble ended a line: a result that is put back keeps it in the line's history, and a permanent failure
-- is left alone by a guarded reprocess.
ALTER TABLE results ADD COLUMN class TEXT;
ALTER TABLE results_before ADD COLUMN class TEXT;
-- put_back: the entry is a result that was put back; starts_over: attempts began anew behind it. Entries of the class
-- 'reprocessed' from before are both.
ALTER TABLE attempts ADD COLUMN put_back INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN starts_over INTEGER NOT NULL DEFAULT 0;
-- Failures by their word.
CREATE INDEX results_code_idx ON results (batch_id, error_code, line) WHERE status <> 0;
