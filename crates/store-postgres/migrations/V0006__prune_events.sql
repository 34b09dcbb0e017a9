-- Events that a snapshot stands for may be pruned. first: the version from which the stream's events are kept.
-- oldest_at: none of them is older; from before this migration, unknown.
ALTER TABLE windrow.snapshots
    ADD COLUMN first bigint NOT NULL DEFAULT 1,
    ADD COLUMN oldest_at timestamptz NOT NULL DEFAULT '-infinity';
CREATE INDEX snapshots_prunable ON windrow.snapshots (oldest_at) WHERE first <= version;
