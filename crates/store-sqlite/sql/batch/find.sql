-- A batch with its counts summed over its lanes; the owner is part of the question.
SELECT /* batch/find */ b.id, b.file_id, b.owner, b.endpoint, b.state, b.generation, b.priority,
    b.job_type, b.source_address, b.metadata, b.created_at, b.deadline, b.cancelling_at,
    b.finalizing_at, b.closed_at, b.last_error, b.summary,
    b.errors,
    ifnull(sum(l.total), 0), ifnull(sum(l.cursor), 0), ifnull(sum(l.returned), 0),
    ifnull(sum(l.leased), 0), ifnull(sum(l.completed), 0), ifnull(sum(l.failed), 0),
    ifnull(sum(l.not_found), 0), ifnull(sum(l.skipped), 0), b.output_secs,
    json_group_array(DISTINCT l.upstream) FILTER (WHERE l.upstream IS NOT NULL),
    b.window_secs, b.recipe_hash
FROM batches AS b
LEFT JOIN batch_lanes AS l ON l.batch_id = b.id
WHERE b.id = ?1 AND b.deleted_at IS NULL AND (?2 IS NULL OR b.owner = ?2)
GROUP BY b.id
