-- Sends messages; gives the ends of their streams, and the places of repeats.
SELECT /* message/send */ o_stream, o_partition, o_position, r_m, r_stream, r_partition, r_position
  FROM {fn}.put_messages($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)
