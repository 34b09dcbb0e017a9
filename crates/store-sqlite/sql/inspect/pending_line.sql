-- A line's number and its first bytes, never its whole body.
SELECT /* inspect/pending_line */ line, substr(raw, 1, ?4)
FROM templates
WHERE file_id = ?1 AND lane = ?2 AND seq = ?3
