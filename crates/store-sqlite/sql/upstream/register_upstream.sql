-- Registers an upstream unless it is known, and gives what is known of it.
INSERT INTO upstreams /* upstream/register_upstream */ (upstream, base_url, key_mark)
VALUES (?1, ?2, ?3)
ON CONFLICT (upstream) DO UPDATE SET base_url = base_url
RETURNING upstream, base_url, key_mark
