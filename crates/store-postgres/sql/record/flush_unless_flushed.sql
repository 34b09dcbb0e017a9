-- Makes sure that whatever was committed before the log came to p_here is on disk when this transaction ends. Nothing is
-- to be done once the log is flushed up to there: the common case, since most commits wait for the disk. Where standbys
-- must confirm a commit, a flush of this server's log does not say that they did.
CREATE FUNCTION {fn}.flush_unless_flushed(p_here pg_lsn) RETURNS void LANGUAGE plpgsql AS $$
BEGIN /* record/flush_unless_flushed */
    IF pg_current_wal_flush_lsn() < p_here OR current_setting('synchronous_standby_names') <> '' THEN
        PERFORM pg_logical_emit_message(true, 'windrow', '');
    END IF;
END $$;
