-- Whether a batch has a line with that number: with a result (its file may be gone), or in its file. Lines of a lane
-- ascend with seq, so each lane is bisected by key.
WITH RECURSIVE bisect(lane, lo, hi) AS (
    SELECT lane, 0, lines - 1 FROM file_lanes WHERE file_id = ?1 AND lane >= 0 AND lines > 0
    UNION ALL
    SELECT bisect.lane, iif(t.line < ?2, (bisect.lo + bisect.hi) / 2 + 1, bisect.lo), iif(t.line < ?2, bisect.hi, (bisect.lo + bisect.hi) / 2)
    FROM bisect
    JOIN templates AS t ON t.file_id = ?1 AND t.lane = bisect.lane AND t.seq = (bisect.lo + bisect.hi) / 2
    WHERE bisect.lo < bisect.hi
)
SELECT /* inspect/has_line */ EXISTS (SELECT 1 FROM results WHERE batch_id = ?3 AND line = ?2) OR EXISTS (
    SELECT 1 FROM bisect
    JOIN templates AS t ON t.file_id = ?1 AND t.lane = bisect.lane AND t.seq = bisect.lo
    WHERE bisect.lo = bisect.hi AND t.line = ?2
)
