-- Adds lines to a row; a set's text may be appended to, its parts stay disjoint.
UPDATE returned /* returned/append */
SET lines = lines || ',' || ?2, n = n + ?3, updated_at = ?4
WHERE id = ?1
