-- A batch with its counts, in O(lanes).
SELECT /* inspect/batch */ b.id, b.file_id, b.owner, b.endpoint, b.state, b.generation, b.priority, b.job_type, b.source_address, b.metadata,
       b.created_at, b.deadline, b.cancelling_at, b.finalizing_at, b.closed_at, b.last_error, b.summary, b.output_secs, b.window_secs,
       b.errors, b.recipe_hash, coalesce(c.upstreams, '{}') AS upstreams,
       coalesce(c.total, 0) AS total, coalesce(c.cursor, 0) AS cursor, coalesce(c.returned, 0) AS returned,
       coalesce(c.leased, 0) AS leased, coalesce(c.completed, 0) AS completed, coalesce(c.failed, 0) AS failed,
       coalesce(c.not_found, 0) AS not_found, coalesce(c.skipped, 0) AS skipped
  FROM windrow.batches b
 CROSS JOIN LATERAL (
    SELECT sum(l.total)::bigint AS total, sum(s.cursor)::bigint AS cursor, sum(s.returned)::bigint AS returned,
           sum(s.leased)::bigint AS leased, sum(s.completed)::bigint AS completed, sum(s.failed)::bigint AS failed,
           sum(s.not_found)::bigint AS not_found, sum(s.skipped)::bigint AS skipped, array_agg(DISTINCT l.upstream) AS upstreams
      FROM windrow.batch_lanes l
     CROSS JOIN LATERAL (SELECT * FROM windrow.lane_states n WHERE n.batch_id = l.batch_id AND n.lane = l.lane
                          ORDER BY n.step DESC LIMIT 1) s
     WHERE l.batch_id = b.id) c
 WHERE b.id = $1 AND ($2::text IS NULL OR b.owner = $2) AND b.deleted_at IS NULL
