-- Some lines of a dropped file.
DELETE FROM templates /* sweep/reap_templates */
WHERE file_id = ?1 AND (lane, seq) IN (
    SELECT lane, seq FROM templates WHERE file_id = ?1 ORDER BY lane, seq LIMIT ?2
)
