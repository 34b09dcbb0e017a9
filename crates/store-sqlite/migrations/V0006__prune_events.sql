-- Events that a snapshot stands for may be pruned. first: the version from which the stream's events are kept.
-- oldest_at: none of them is older; from before this migration, unknown.
ALTER TABLE snapshots ADD COLUMN first INTEGER NOT NULL DEFAULT 1;
ALTER TABLE snapshots ADD COLUMN oldest_at INTEGER NOT NULL DEFAULT 0;
CREATE INDEX snapshots_prunable ON snapshots (oldest_at) WHERE first <= version;
