-- The audit log says once for all lanes of a batch where they were bound to.
INSERT INTO acts /* claim/note_bound */ (batch_id, id, at, actor, address, action)
SELECT ?1, ?2, ?3, ?4, NULL, ?5
WHERE NOT EXISTS (SELECT 1 FROM acts WHERE batch_id = ?1 AND action = ?5)
