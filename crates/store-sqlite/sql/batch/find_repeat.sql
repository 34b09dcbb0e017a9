-- Batches that a creation with this id or idempotency key might repeat.
SELECT /* batch/find_repeat */ id, owner, file_id, endpoint, deleted_at IS NOT NULL, recipe_hash
FROM batches
WHERE id = ?1
UNION
SELECT id, owner, file_id, endpoint, 0, recipe_hash
FROM batches
WHERE owner = ?2 AND idempotency_key = ?3 AND deleted_at IS NULL AND idempotency_key IS NOT NULL
