-- The first version between two that must stay: it is young, or the last of the feed, whose place would be given again;
-- uses events_by_stream.
SELECT /* event/find_young */ min(version)
FROM events
WHERE owner = ?1 AND stream = ?2 AND version BETWEEN ?3 AND ?4
    AND (at > ?5 OR feed_seq = (SELECT max(feed_seq) FROM events))
