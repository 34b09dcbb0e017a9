-- Finished lines run again: nothing of an earlier ending stays.
UPDATE batches /* batch/reopen */
SET state = ?3, generation = ?4, finalizing_at = NULL, closed_at = NULL, summary = NULL,
    final_token = NULL, final_by = NULL, final_until = NULL
WHERE id = ?1 AND state = ?2
