-- Calls without an answer, the age of the oldest that is pending, and those that are old; uses
-- calls_by_state.
SELECT /* call/count_unanswered */ state, count(*), min(created_at),
    count(*) FILTER (WHERE state = 0 AND created_at <= ?2 OR state = 1 AND updated_at <= ?2)
FROM calls INDEXED BY calls_by_state
WHERE state <> 2 AND state < 2 AND (?1 IS NULL OR owner = ?1)
GROUP BY state
