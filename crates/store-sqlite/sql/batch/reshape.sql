-- Writes the shaped row of a result anew, unless the line has another result by now.
UPDATE results /* batch/reshape */ SET shaped = ?4 WHERE batch_id = ?1 AND line = ?2 AND generation = ?3
