-- A new run.
INSERT INTO batches /* batch/insert */
    (id, file_id, owner, endpoint, state, priority, job_type, source_address, metadata,
     idempotency_key, created_at, deadline, closed_at, output_secs, errors, window_secs, recipe_hash)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14,
    CASE ?5 WHEN 'failed' THEN ifnull(?15, (SELECT f.errors FROM files AS f WHERE f.id = ?2)) END, ?16, ?17)
