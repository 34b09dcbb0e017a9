-- What a batch makes of its rows, from a generation on.
INSERT INTO batch_recipes /* batch/insert_recipe */ (batch_id, generation, text)
VALUES (?1, ?2, ?3)
