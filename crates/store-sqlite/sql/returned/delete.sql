-- A row that was taken whole.
DELETE FROM returned /* returned/delete */ WHERE id = ?1
