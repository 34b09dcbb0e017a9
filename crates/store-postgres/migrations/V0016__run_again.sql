-- What kind of trouble ended a line: a result that is put back keeps it in the line's history, and a permanent failure
-- is left alone by a guarded reprocess.
ALTER TABLE windrow.results ADD COLUMN class text;
ALTER TABLE windrow.results_before ADD COLUMN class text;
-- put_back: the entry is a result that was put back; starts_over: attempts began anew behind it. Entries of the class
-- 'reprocessed' from before are both.
ALTER TABLE windrow.attempts ADD COLUMN put_back boolean NOT NULL DEFAULT false;
ALTER TABLE windrow.attempts ADD COLUMN starts_over boolean NOT NULL DEFAULT false;
-- Failures by their word.
CREATE INDEX results_by_code ON windrow.results (batch_id, error_code, line) WHERE status <> 0;
