-- The first bytes of lines of one lane, by primary key.
SELECT /* inspect/prefixes */ seq, line, substring(raw FROM 1 FOR $4) AS prefix FROM windrow.templates
 WHERE file_id = $1 AND lane = $2 AND seq = ANY ($3)
