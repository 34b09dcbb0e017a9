-- Lists of calls of one owner are submitted one after another, so that two that name the same calls and objects never wait
-- for each other crosswise: which of their calls are there is known only under the locks of all their streams.
SELECT /* call/lock_owners */ count(pg_advisory_xact_lock(k.key)::text) AS locked
  FROM (SELECT DISTINCT hashtextextended('windrow.calls:' || u.owner, 0) AS key FROM unnest($1::text[]) u(owner) ORDER BY 1) k
