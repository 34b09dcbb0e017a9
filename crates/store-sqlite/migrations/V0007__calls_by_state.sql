-- Statistics look at the archive, too; and a list of calls in a state goes by an index. Not of completed ones: they are
-- the many, which the list by time finds, and so their answer leaves no entry.
CREATE INDEX calls_archive_answered ON calls_archive (processed_at);
CREATE INDEX calls_by_state ON calls (state, created_at) WHERE state <> 2;
DROP INDEX calls_unanswered;
