-- Who finalises a batch, until when, and by which right.
SELECT /* finalise/holder */ final_token, final_by, final_until FROM batches WHERE id = ?1
