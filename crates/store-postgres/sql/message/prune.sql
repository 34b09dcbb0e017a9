-- Tidies messages, ids, calls and streams away, then events: these locks come last.
SELECT /* message/prune */ ids, archived, expired, tombstones, dead, streams, {fn}.prune_events($1, $8, $7) AS events
  FROM {fn}.tidy_messages($1, $2, $3, $4, $5, $6, $7, $9)
