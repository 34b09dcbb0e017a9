-- The question was repeated; whoever asked last is told.
UPDATE calls /* call/count_retry */
SET retry_count = retry_count + 1, waiter = ifnull(?3, waiter)
WHERE owner = ?1 AND request_id = ?2
