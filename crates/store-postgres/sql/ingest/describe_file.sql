-- Says how the rows of a file that is open are read, and what it was cut from; what is not given stays as it is. Says
-- false, and changes nothing, when its original is somewhere else already. Locks its row; uses files_pkey.
WITH /* ingest/describe_file */ open AS (
    SELECT id, place IS NULL OR $4::text IS NULL OR place = $4 AS fits
      FROM windrow.files WHERE id = $2 AND state = 'open' FOR UPDATE
), described AS (
    UPDATE windrow.files f
       SET head = coalesce($3, f.head), place = coalesce($4, f.place), original_bytes = coalesce($5::bigint, f.original_bytes),
           touched_at = coalesce($1, clock_timestamp())
      FROM open o WHERE f.id = o.id AND o.fits
)
SELECT fits FROM open
