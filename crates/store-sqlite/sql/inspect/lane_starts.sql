-- How many lines of each lane of a file are numbered lower than ?2. Lines of a lane ascend with seq, so each lane is
-- bisected by key.
WITH RECURSIVE bisect(lane, lo, hi) AS (
    SELECT lane, 0, lines FROM file_lanes WHERE file_id = ?1 AND lane >= 0 AND lines > 0
    UNION ALL
    SELECT bisect.lane, iif(t.line < ?2, (bisect.lo + bisect.hi) / 2 + 1, bisect.lo), iif(t.line < ?2, bisect.hi, (bisect.lo + bisect.hi) / 2)
    FROM bisect
    CROSS JOIN templates AS t ON t.file_id = ?1 AND t.lane = bisect.lane AND t.seq = (bisect.lo + bisect.hi) / 2
    WHERE bisect.lo < bisect.hi
)
SELECT /* inspect/lane_starts */ lane, lo FROM bisect WHERE lo = hi
