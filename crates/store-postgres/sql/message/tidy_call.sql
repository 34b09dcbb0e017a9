-- Tidies messages, ids, calls and streams away.
SELECT /* message/tidy_call */ ids, archived, expired, tombstones, dead, streams
  FROM {fn}.tidy_messages($1, $2, $3, $4, $5, $6, $7)
