-- Hot statements are planned once, and perhaps while a table is empty: then the planner cannot tell which of two indexes is
-- the better one. So a row's key is found by the key's own index and no other; lists have expressions of their own, which
-- only they ask for. (owner || '' is the owner.)
DROP INDEX windrow.calls_by_owner;
CREATE INDEX calls_by_owner ON windrow.calls ((owner || ''), created_at);
DROP INDEX windrow.calls_by_time;
CREATE INDEX calls_by_time ON windrow.calls (created_at);
-- An owner's messages are listed without walking everybody's; streams to be forgotten are found without reading all.
CREATE INDEX streams_by_owner ON windrow.streams ((owner || ''), partition, no);
CREATE INDEX streams_by_time ON windrow.streams (touched_at);
