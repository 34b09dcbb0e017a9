-- A batch runs again: nothing of an earlier ending stays.
UPDATE batches /* batch/reopen */
SET state = ?3, generation = ?4, cancelling_at = NULL, finalizing_at = NULL, closed_at = NULL, summary = NULL,
    final_token = NULL, final_by = NULL, final_until = NULL
WHERE id = ?1 AND state = ?2
