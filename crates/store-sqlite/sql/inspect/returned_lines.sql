-- The lines of one returned row.
SELECT /* inspect/returned_lines */ lines FROM returned WHERE id = ?1
