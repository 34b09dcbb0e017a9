-- Makes a file vanish, unless a batch that is not closed needs it (WR409). The lock comes first and the look second:
-- creating a batch holds a shared lock on its file, so whoever is first is seen by the other.
CREATE FUNCTION {fn}.drop_file(p_owner text, p_file uuid)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN /* ingest/drop_file */
    PERFORM 1 FROM windrow.files
      WHERE id = p_file AND state <> 'dropped' AND (p_owner IS NULL OR owner = p_owner) FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF EXISTS (SELECT 1 FROM windrow.batches
                WHERE file_id = p_file AND closed_at IS NULL AND deleted_at IS NULL) THEN
        RAISE EXCEPTION 'file % is needed by a batch that is not closed', p_file USING ERRCODE = 'WR409';
    END IF;
    UPDATE windrow.files SET state = 'dropped' WHERE id = p_file;
    RETURN true;
END $$;
