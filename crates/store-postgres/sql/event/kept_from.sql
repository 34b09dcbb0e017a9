-- Where a stream begins, when events of it may have been pruned, and the version of its snapshot.
SELECT /* event/kept_from */ first, version FROM windrow.snapshots WHERE owner = $1 AND stream = $2
