-- What somebody did. A repeat has no effect.
INSERT INTO acts /* batch/add_act */ (batch_id, id, at, actor, address, action)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT DO NOTHING
