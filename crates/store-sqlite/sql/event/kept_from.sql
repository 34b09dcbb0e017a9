-- Where a stream begins, when events of it may have been pruned, and the version of its snapshot.
SELECT /* event/kept_from */ first, version FROM snapshots WHERE owner = ?1 AND stream = ?2
