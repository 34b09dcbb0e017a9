-- What was fixed for the messages of this database, if anything was.
SELECT /* partition/setup */ service, partitions, object_types, lifecycle
FROM message_setup
WHERE one = 1
