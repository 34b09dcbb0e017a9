-- The newest acts of a batch, newest first. Uses acts_by_time.
SELECT /* inspect/acts */ at, actor, address, action FROM windrow.acts
 WHERE batch_id = $1 ORDER BY at DESC, id DESC LIMIT $2
