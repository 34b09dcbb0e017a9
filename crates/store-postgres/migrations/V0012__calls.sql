-- Answers that the archive keeps, by age: retention of the archive goes by it, past the tombstones.
CREATE INDEX calls_archive_kept ON windrow.calls_archive (processed_at) WHERE state < 4;
