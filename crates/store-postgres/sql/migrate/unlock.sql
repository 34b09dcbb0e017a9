-- The next one may migrate.
SELECT /* migrate/unlock */ pg_advisory_unlock($1)
