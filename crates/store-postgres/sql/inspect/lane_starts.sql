-- How many lines of each lane of a batch's file are numbered lower than $2. Lines of a lane ascend with seq, so each
-- lane is bisected by key. LIMIT keeps each look one of the index, whatever the estimates say.
WITH RECURSIVE bisect(file_id, lane, lo, hi) AS (
    SELECT l.file_id, l.lane, 0::bigint, l.lines FROM windrow.batches b JOIN windrow.file_lanes l ON l.file_id = b.file_id
     WHERE b.id = $1 AND l.lane >= 0 AND l.lines > 0
    UNION ALL
    SELECT b.file_id, b.lane, CASE WHEN t.line < $2 THEN (b.lo + b.hi) / 2 + 1 ELSE b.lo END,
           CASE WHEN t.line < $2 THEN b.hi ELSE (b.lo + b.hi) / 2 END
      FROM bisect b
     CROSS JOIN LATERAL (SELECT w.line FROM windrow.templates w
                          WHERE w.file_id = b.file_id AND w.lane = b.lane AND w.seq = (b.lo + b.hi) / 2 LIMIT 1) t
     WHERE b.lo < b.hi
)
SELECT /* inspect/lane_starts */ lane, lo AS passed FROM bisect WHERE lo = hi
