-- Whether a batch has a line with that number: with a result (its file may be gone), or in its file. Lines of a lane
-- ascend with seq, so each lane is bisected by key.
WITH RECURSIVE bisect(lane, lo, hi) AS (
    SELECT l.lane, 0::bigint, l.lines - 1 FROM windrow.file_lanes l WHERE l.file_id = $1 AND l.lane >= 0 AND l.lines > 0
    UNION ALL
    SELECT b.lane, CASE WHEN t.line < $2 THEN (b.lo + b.hi) / 2 + 1 ELSE b.lo END,
           CASE WHEN t.line < $2 THEN b.hi ELSE (b.lo + b.hi) / 2 END
      FROM bisect b
      JOIN windrow.templates t ON t.file_id = $1 AND t.lane = b.lane AND t.seq = (b.lo + b.hi) / 2
     WHERE b.lo < b.hi
)
SELECT /* inspect/has_line */ EXISTS (SELECT 1 FROM windrow.results r WHERE r.batch_id = $3 AND r.line = $2) OR EXISTS (
    SELECT 1 FROM bisect b JOIN windrow.templates t ON t.file_id = $1 AND t.lane = b.lane AND t.seq = b.lo
     WHERE b.lo = b.hi AND t.line = $2) AS has_line
