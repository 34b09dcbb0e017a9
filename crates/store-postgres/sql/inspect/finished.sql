-- Finished lines of a batch by line, by primary key. Bodies only when asked for.
SELECT /* inspect/finished */ batch_id, line, seq, created_at, lane, status, attempts, generation, http_status, custom_id,
       error_code, error, shaped, CASE WHEN $7 THEN response END AS response, CASE WHEN $7 THEN normalised END AS normalised
  FROM windrow.results
 WHERE batch_id = $1 AND line > $2 AND ($3::smallint[] IS NULL OR status = ANY ($3))
   AND ($4::timestamptz IS NULL OR created_at >= $4) AND ($5::timestamptz IS NULL OR created_at < $5)
 ORDER BY line LIMIT $6
