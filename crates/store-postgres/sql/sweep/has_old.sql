-- Whether something is past its retention: the tests of prune, without its locks.
SELECT /* sweep/has_old */ EXISTS (
    SELECT 1 FROM windrow.batches b
     WHERE b.closed_at <= (SELECT coalesce($1, clock_timestamp()) - $2 * interval '1 s') AND b.deleted_at IS NULL)
OR EXISTS (
    SELECT 1 FROM windrow.files f
     WHERE f.state = 'open' AND f.touched_at <= (SELECT coalesce($1, clock_timestamp()) - $3 * interval '1 s'))
OR EXISTS (
    SELECT 1 FROM windrow.files f
     WHERE f.state IN ('sealed', 'invalid') AND f.expires_at <= (SELECT coalesce($1, clock_timestamp()))
       AND NOT EXISTS (SELECT 1 FROM windrow.batches b
                        WHERE b.file_id = f.id AND b.closed_at IS NULL AND b.deleted_at IS NULL))
OR EXISTS (
    SELECT 1 FROM windrow.members m
     WHERE m.tombstoned_at <= (SELECT coalesce($1, clock_timestamp()) - $4 * interval '1 s')
       AND NOT EXISTS (SELECT 1 FROM windrow.leases l WHERE l.instance_id = m.instance_id)) AS found
