-- A call that runs for long is processed by this instance. Guarded: one that has its answer keeps it, and one whose
-- message is not as the runner read it any more was put off.
UPDATE calls /* call/commit_running */
SET state = 1, instance = ?6, updated_at = ?7
WHERE state < 2 AND (owner, request_id) = (
    SELECT s.owner, m.id
    FROM messages AS m JOIN streams AS s ON s.no = m.stream_no AND s.queue = 2
    WHERE m.partition = ?1 AND m.stream_no = ?2 AND m.position = ?3 AND m.attempts = ?4 AND m.not_before IS ?5
)
