-- What was applied, in its order.
SELECT /* migrate/applied */ version::int8, name::text, checksum::text FROM {history} ORDER BY version
