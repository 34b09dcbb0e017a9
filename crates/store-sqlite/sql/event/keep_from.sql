-- From which version a stream's events are kept. One that is not there yet is not older than now.
UPDATE snapshots /* event/keep_from */
SET first = ?3,
    oldest_at = ifnull((SELECT at FROM events WHERE owner = ?1 AND stream = ?2 AND version = ?3), ?4)
WHERE owner = ?1 AND stream = ?2
