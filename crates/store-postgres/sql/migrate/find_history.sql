-- The table of what was applied, with its schema; of several, the one that its name alone leads to.
SELECT /* migrate/find_history */ format('%I.%I', n.nspname, c.relname)
  FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relname = $1::text AND c.relkind = 'r'
 ORDER BY pg_table_is_visible(c.oid) DESC, c.oid LIMIT 1
