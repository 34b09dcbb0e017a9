-- Batches that nobody closed.
SELECT /* finalise/unclosed_call */ id FROM {fn}.find_unclosed($1, $2) id
