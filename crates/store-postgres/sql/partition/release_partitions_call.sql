-- Gives partitions back.
SELECT /* partition/release_partitions_call */ {fn}.release_partitions($1, $2, $3) AS freed
