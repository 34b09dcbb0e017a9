-- The database's clock, in microseconds since the epoch (it ticks in milliseconds).
SELECT /* clock/now */ CAST(round(unixepoch('now', 'subsec') * 1000) AS INTEGER) * 1000
