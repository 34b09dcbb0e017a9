-- From now on the upstream is this, whatever it was.
INSERT INTO upstreams /* upstream/set_upstream */ (upstream, base_url, key_mark)
VALUES (?1, ?2, ?3)
ON CONFLICT (upstream) DO UPDATE SET base_url = excluded.base_url, key_mark = excluded.key_mark
