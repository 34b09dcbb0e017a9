-- What a batch runs over, and how its rows are read; a dropped file says nothing.
SELECT /* inspect/job_definition */ b.file_id, b.owner, f.head
FROM batches AS b
LEFT JOIN files AS f ON f.id = b.file_id AND f.state <> 'dropped'
WHERE b.id = ?1 AND b.deleted_at IS NULL
