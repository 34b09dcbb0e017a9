-- The database's time.
SELECT /* batch/now */ clock_timestamp() AS now
