-- Whether a batch that is not closed uses the file; uses batches_file_idx.
SELECT /* ingest/is_needed */ EXISTS (
    SELECT 1 FROM batches WHERE file_id = ?1 AND closed_at IS NULL AND deleted_at IS NULL
)
