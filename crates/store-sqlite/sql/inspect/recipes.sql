-- The recipes of a batch, oldest first, by primary key.
SELECT /* inspect/recipes */ generation, text FROM batch_recipes WHERE batch_id = ?1 ORDER BY generation
