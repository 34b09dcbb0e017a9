-- Sets of unfinished lines from the three places, by (updated_at, batch, lane), from a group on (that group
-- included, $10, or not). Groups are
-- never cut (WITH TIES): lines of sets with the same key are merged by the caller. O(open lanes + sets).
WITH /* inspect/pending */ running AS (
    SELECT b.id, b.owner, b.job_type, b.state, l.lane, l.target, l.file_id, l.total, l.created_at
      FROM windrow.batches b JOIN windrow.batch_lanes l ON l.batch_id = b.id
     WHERE b.state IN ('in_progress', 'paused', 'cancelling', 'expiring') AND b.deleted_at IS NULL
       AND ($1::text IS NULL OR b.owner = $1) AND ($2::uuid IS NULL OR b.id = $2)
       AND ($3::text IS NULL OR b.job_type = $3)
), sets AS (
    SELECT r.created_at AS updated_at, r.id AS batch_id, r.lane, 'untouched' AS place,
           s.cursor || '-' || r.total - 1 AS lines, 0 AS attempts, 0 AS crashes,
           NULL::timestamptz AS not_before, NULL::uuid AS held_by, r.owner, r.job_type, r.target, r.file_id
      FROM running r
     CROSS JOIN LATERAL (SELECT n.cursor FROM windrow.lane_states n WHERE n.batch_id = r.id AND n.lane = r.lane
                          ORDER BY n.step DESC LIMIT 1) s
     WHERE s.cursor < r.total AND r.state IN ('in_progress', 'paused')
    UNION ALL
    SELECT x.updated_at, r.id, r.lane, 'returned', x.lines, x.attempts, x.crashes, x.not_before, NULL,
           r.owner, r.job_type, r.target, r.file_id
      FROM running r JOIN windrow.returned x ON x.batch_id = r.id AND x.lane = r.lane
     WHERE r.state IN ('in_progress', 'paused')
    UNION ALL
    SELECT x.granted_at, r.id, r.lane, 'leased', x.lines, x.attempts, x.crashes, NULL, x.instance_id,
           r.owner, r.job_type, r.target, r.file_id
      FROM running r JOIN windrow.leases x ON x.batch_id = r.id AND x.lane = r.lane
)
SELECT * FROM sets
 WHERE ($4::text[] IS NULL OR place = ANY ($4))
   AND ($5::timestamptz IS NULL OR updated_at >= $5) AND ($6::timestamptz IS NULL OR updated_at < $6)
   AND ($7::timestamptz IS NULL OR (updated_at, batch_id, lane) > ($7, $8::uuid, $9::smallint)
        OR ($10::boolean AND (updated_at, batch_id, lane) = ($7, $8, $9)))
 ORDER BY updated_at, batch_id, lane FETCH FIRST ($11::bigint) ROWS WITH TIES
