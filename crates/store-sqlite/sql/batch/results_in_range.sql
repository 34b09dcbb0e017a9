-- Results of older generations in a range of lines, by line. With ?5, since when it was put back how often, and how
-- often it was tried at all, each by primary key.
SELECT /* batch/results_in_range */ r.line, r.lane, r.seq, r.status, r.attempts, r.class,
    CASE WHEN ?5 IS NULL THEN 0 ELSE (
        SELECT ifnull(sum(a.times), 0) FROM attempts AS a
        WHERE a.batch_id = ?1 AND a.line = r.line AND a.class <> 'throttled') END,
    CASE WHEN ?5 IS NULL THEN 0 ELSE (
        SELECT count(*) FROM attempts AS a
        WHERE a.batch_id = ?1 AND a.line = r.line AND (a.put_back OR a.class = 'reprocessed')
            AND a.created_at > ?5) END
FROM results AS r
WHERE r.batch_id = ?1 AND r.generation < ?2 AND r.line BETWEEN ?4 AND ?6
ORDER BY r.line
LIMIT ?3
