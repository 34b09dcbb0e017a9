-- Sends dead letters again; i is the place in the question.
SELECT /* message/replay_call */ i, partition, stream_no, position FROM {fn}.replay_dead($1, $2, $3)
