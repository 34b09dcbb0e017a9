-- Takes partitions.
SELECT /* partition/take_call */ no, epoch, is_suspect FROM {fn}.take_partitions($1, $2, $3)
