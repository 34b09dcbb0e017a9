-- The newest snapshot of a stream.
SELECT /* event/snapshot */ version, state FROM windrow.snapshots WHERE owner = $1 AND stream = $2
