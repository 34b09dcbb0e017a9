-- Lines of one range of a lane, by key.
SELECT /* claim/read_lines */ seq, line, raw
FROM templates
WHERE file_id = ?1 AND lane = ?2 AND seq BETWEEN ?3 AND ?4
ORDER BY seq
