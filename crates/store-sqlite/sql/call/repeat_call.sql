-- The question was repeated. Who waits for an answer that is still to come is remembered.
UPDATE calls /* call/repeat_call */
SET retry_count = retry_count + 1, waiter = CASE WHEN state < 2 THEN ifnull(?3, waiter) ELSE waiter END
WHERE owner = ?1 AND request_id = ?2
