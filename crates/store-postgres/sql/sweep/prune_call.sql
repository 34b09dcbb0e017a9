-- Marks for removal what is past its retention.
SELECT /* sweep/prune_call */ batches, files, members FROM {fn}.prune($1, $2, $3, $4, $5)
