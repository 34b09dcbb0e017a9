-- Batches by id from a key on, for pages that go through several.
SELECT /* inspect/batch_ids */ id FROM windrow.batches
 WHERE ($1::text IS NULL OR owner = $1) AND ($2::uuid IS NULL OR id = $2) AND ($3::text IS NULL OR job_type = $3)
   AND deleted_at IS NULL AND ($4::uuid IS NULL OR id >= $4)
 ORDER BY id LIMIT $5
