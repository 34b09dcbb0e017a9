-- The file of a batch, and whether it is there. By primary keys.
SELECT /* inspect/row_file */ b.file_id,
       EXISTS (SELECT 1 FROM windrow.files f WHERE f.id = b.file_id AND f.state <> 'dropped') AS has_file
  FROM windrow.batches b
 WHERE b.id = $1 AND ($2::text IS NULL OR b.owner = $2) AND b.deleted_at IS NULL
