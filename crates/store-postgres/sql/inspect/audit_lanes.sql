-- The lanes of a batch with their counts and the batch's state.
SELECT /* inspect/audit_lanes */ b.state, b.generation, b.recipe_hash, l.lane, l.upstream, l.phase, l.total, s.cursor, s.returned, s.leased, s.completed, s.failed,
       s.not_found, s.skipped
  FROM windrow.batches b
  LEFT JOIN windrow.batch_lanes l ON l.batch_id = b.id
  LEFT JOIN windrow.lane_states s ON s.batch_id = l.batch_id AND s.lane = l.lane
 WHERE b.id = $1 AND b.deleted_at IS NULL ORDER BY l.lane
