-- The question was repeated after its answer went to the archive.
UPDATE calls_archive /* call/count_archived_retry */
SET retry_count = retry_count + 1
WHERE owner = ?1 AND request_id = ?2
