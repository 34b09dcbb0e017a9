-- Makes everything committed so far durable: a transaction that writes one tiny record to the log and commits as the
-- server is set to. Whoever commits at the same moment shares the write to disk.
SELECT /* record/flush */ pg_logical_emit_message(true, 'windrow', '')
