-- Everybody's events behind a place of the feed, as far as every transaction has ended that could still come before them.
-- Looks at a window of $4 rows and gives up to $5 that are the owner's; last_ is where the window ended.
WITH /* event/read_all */ w AS MATERIALIZED (
    SELECT * FROM windrow.events
     WHERE (feed_xid, feed_seq) > ($2::text::xid8, $3) AND feed_xid < pg_snapshot_xmin(pg_current_snapshot())
     ORDER BY feed_xid, feed_seq LIMIT $4
)
SELECT l.feed_xid::text AS last_xid, l.feed_seq AS last_seq, e.feed_xid::text AS feed_xid, e.feed_seq, e.owner, e.stream,
       e.version, e.id, e.kind, e.payload, e.headers::text AS headers, e.at
  FROM (SELECT feed_xid, feed_seq FROM w ORDER BY feed_xid DESC, feed_seq DESC LIMIT 1) l
  LEFT JOIN (SELECT * FROM w WHERE $1::text IS NULL OR owner = $1 ORDER BY feed_xid, feed_seq LIMIT $5) e ON true
 ORDER BY e.feed_xid, e.feed_seq
