-- What a split row keeps.
UPDATE returned /* returned/shrink */ SET lines = ?2, n = ?3 WHERE id = ?1
