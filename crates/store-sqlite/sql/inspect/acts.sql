-- The newest acts of a batch, newest first; uses acts_at_idx.
SELECT /* inspect/acts */ at, actor, address, action
FROM acts
WHERE batch_id = ?1
ORDER BY at DESC, id DESC
LIMIT ?2
