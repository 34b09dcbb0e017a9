-- What rows of a batch hold, in the order given, each by its keys: input, result (of one without, with $8, the newest
-- earlier one) and what went wrong last. Bodies only when asked for ($7). Up to $9 bytes, but at least one row; how large
-- they are is known without reading them.
SELECT /* inspect/rows */ no, line, fits, CASE WHEN fits THEN raw END AS raw,
       batch_id, lane, seq, created_at, status, attempts, generation, http_status, custom_id, error_code, class, earlier,
       CASE WHEN fits THEN error END AS error, CASE WHEN fits THEN shaped END AS shaped,
       CASE WHEN fits AND $7 THEN response END AS response, CASE WHEN fits AND $7 THEN normalised END AS normalised,
       last_error_code, CASE WHEN fits THEN last_error END AS last_error
  FROM (SELECT s.*, $9::bigint IS NULL OR s.total <= $9 OR s.no = 1 AS fits
          FROM (SELECT p.*, sum(p.bytes) OVER (ORDER BY p.no) AS total
                  FROM (SELECT k.no, k.line, t.raw, k.lane, k.seq, r.batch_id, r.created_at, r.status, r.attempts, r.generation,
                               r.http_status, r.custom_id, r.error_code, r.class, r.error, r.shaped, r.response, r.normalised, r.earlier,
                               a.error_code AS last_error_code, a.error AS last_error,
                               coalesce(octet_length(t.raw), 0)::bigint + coalesce(octet_length(a.error), 0)
                               + coalesce(octet_length(r.error), 0) + coalesce(octet_length(r.shaped), 0)
                               + CASE WHEN $7 THEN coalesce(octet_length(r.response), 0)::bigint
                                                   + coalesce(octet_length(r.normalised), 0) ELSE 0 END AS bytes
                          FROM unnest($3::bigint[], $4::smallint[], $5::bigint[], $6::boolean[])
                               WITH ORDINALITY k(line, lane, seq, finished, no)
                          LEFT JOIN LATERAL (SELECT w.raw FROM windrow.templates w
                                              WHERE w.file_id = $2 AND w.lane = k.lane AND w.seq = k.seq LIMIT 1) t ON true
                          LEFT JOIN LATERAL (
                            (SELECT c.batch_id, c.created_at, c.status, c.attempts, c.generation, c.http_status, c.custom_id,
                                    c.error_code, c.class, c.error, c.shaped, c.response, c.normalised, false AS earlier
                               FROM windrow.results c WHERE k.finished AND c.batch_id = $1 AND c.line = k.line LIMIT 1)
                            UNION ALL
                            (SELECT b.batch_id, b.created_at, b.status, b.attempts, b.generation, b.http_status, b.custom_id,
                                    b.error_code, b.class, b.error, b.shaped, b.response, b.normalised, true
                               FROM windrow.results_before b
                              WHERE NOT k.finished AND $8 AND b.batch_id = $1 AND b.line = k.line
                              ORDER BY b.generation DESC LIMIT 1)) r ON true
                          LEFT JOIN LATERAL (SELECT x.error_code, x.error FROM windrow.attempts x
                                              WHERE NOT k.finished AND x.batch_id = $1 AND x.line = k.line
                                              ORDER BY x.generation DESC, x.attempt DESC LIMIT 1) a ON true) p) s) f
 ORDER BY no
