-- One who migrates at a time. Held by the session.
SELECT /* migrate/lock */ pg_advisory_lock($1)
