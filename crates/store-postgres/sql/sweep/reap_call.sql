-- Deletes a bounded number of rows that nobody needs.
SELECT /* sweep/reap_call */ rows, more FROM {fn}.reap($1)
