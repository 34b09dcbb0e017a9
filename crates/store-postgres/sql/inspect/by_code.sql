-- Like finished, of failures with one word. Uses results_by_code: nothing else may be read to find a rare one.
SELECT /* inspect/by_code */ batch_id, line, seq, created_at, lane, status, attempts, generation, http_status, custom_id,
       error_code, class, fits, CASE WHEN fits THEN error END AS error, CASE WHEN fits THEN shaped END AS shaped,
       CASE WHEN fits AND $7 THEN response END AS response, CASE WHEN fits AND $7 THEN normalised END AS normalised
  FROM (SELECT c.*, $8::bigint IS NULL OR c.total <= $8 OR ($9 AND c.no = 1) AS fits
          FROM (SELECT p.*, row_number() OVER by_line AS no, sum(p.bytes) OVER by_line AS total
                  FROM (SELECT r.*, coalesce(octet_length(r.error), 0)::bigint + coalesce(octet_length(r.shaped), 0)
                               + CASE WHEN $7 THEN coalesce(octet_length(r.response), 0)::bigint
                                                   + coalesce(octet_length(r.normalised), 0) ELSE 0 END AS bytes
                          FROM windrow.results r
                         WHERE r.batch_id = $1 AND r.line > $2 AND r.status <> 0 AND r.error_code = $12
                           AND ($3::smallint[] IS NULL OR r.status = ANY ($3))
                           AND ($4::timestamptz IS NULL OR r.created_at >= $4)
                           AND ($5::timestamptz IS NULL OR r.created_at < $5)
                           AND r.line <= coalesce($10::bigint, 9223372036854775807)
                           AND ($11::text IS NULL OR r.custom_id = $11)
                         ORDER BY r.line LIMIT $6) p
                WINDOW by_line AS (ORDER BY p.line)) c
         -- One row past the bound says that there are more; it comes without its bodies.
         WHERE $8::bigint IS NULL OR c.total - c.bytes <= $8 OR c.no <= 2) f
 ORDER BY line
