-- Says how the rows of a file that is open are read, and what it was cut from. What is not given stays as it is.
UPDATE files /* ingest/describe_file */
SET head = ifnull(?2, head), place = ifnull(?3, place), original_bytes = ifnull(?4, original_bytes), touched_at = ?5
WHERE id = ?1 AND state = 'open'
