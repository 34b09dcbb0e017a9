-- Events of a stream between two versions; uses events_by_stream.
DELETE FROM events /* event/prune_events */
WHERE owner = ?1 AND stream = ?2 AND version BETWEEN ?3 AND ?4
