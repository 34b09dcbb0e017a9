-- A stream's events from a version on.
SELECT /* event/read_stream */ owner, stream, version, id, kind, payload, headers::text AS headers, at
  FROM windrow.events WHERE owner = $1 AND stream = $2 AND version >= $3 ORDER BY version LIMIT $4
