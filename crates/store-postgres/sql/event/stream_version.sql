-- A stream's last version.
SELECT /* event/stream_version */ version FROM windrow.event_streams WHERE owner = $1 AND stream = $2
