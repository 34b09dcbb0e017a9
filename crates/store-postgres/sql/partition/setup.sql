-- What was fixed.
SELECT /* partition/setup */ service, partitions, object_types, lifecycle FROM windrow.message_setup
