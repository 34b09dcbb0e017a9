-- The ids of a stream's events between two versions; uses events_by_stream.
SELECT /* event/ids */ id
FROM events
WHERE owner = ?1 AND stream = ?2 AND version BETWEEN ?3 AND ?4
ORDER BY version
