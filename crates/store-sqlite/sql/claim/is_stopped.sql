-- Whether a lease must not go on: its lane is not open or was moved to another upstream, its batch's
-- window has ended, or it is gone. By primary keys.
SELECT /* claim/is_stopped */ NOT EXISTS (
    SELECT 1 FROM leases AS h
    JOIN batch_lanes AS l ON l.batch_id = h.batch_id AND l.lane = h.lane
    WHERE h.id = ?1 AND l.phase = 'open' AND l.upstream = h.upstream AND l.due > ?2
)
