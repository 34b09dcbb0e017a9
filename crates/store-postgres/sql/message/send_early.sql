-- As message/send, in a transaction of its own whose commit does not wait for the disk: record/flush behind it does.
SELECT /* message/send_early */ set_config('synchronous_commit', 'off', true),
       o_stream, o_partition, o_position, r_m, r_stream, r_partition, r_position
  FROM {fn}.put_messages($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)
