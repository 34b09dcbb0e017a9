-- Whether a lease's time has passed or its holder is tombstoned. Locks nothing.
SELECT /* sweep/has_lost */ EXISTS (
    SELECT 1 FROM windrow.leases l
     WHERE l.expires_at <= (SELECT coalesce($1, clock_timestamp())) OR l.instance_id IN (
        SELECT m.instance_id FROM windrow.members m WHERE m.tombstoned_at IS NOT NULL)) AS found
