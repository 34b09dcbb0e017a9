-- Makes and locks an instance's permit rows of the limited ones among the targets, sorted, so that two turns of one
-- instance never wait for each other crosswise. After all lanes and batches.
CREATE FUNCTION {fn}.lock_permits(p_instance uuid, p_targets text[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN /* kernel/lock_permits */
    IF NOT EXISTS (SELECT 1 FROM windrow.targets WHERE target = ANY (p_targets)) THEN
        RETURN;
    END IF;
    INSERT INTO windrow.permits
    SELECT t.target, p_instance, 0, 0 FROM windrow.targets t WHERE t.target = ANY (p_targets) ORDER BY t.target
    ON CONFLICT DO NOTHING;
    PERFORM 1 FROM windrow.permits WHERE instance_id = p_instance AND target = ANY (p_targets)
      ORDER BY target FOR UPDATE;
END $$;
