-- Registers an upstream unless it is known, and gives what is known of it. The update changes nothing: it is how one that
-- another process registers at the same moment is read.
INSERT /* upstream/register_upstream */ INTO windrow.upstreams AS u (upstream, base_url, key_mark) VALUES ($1, $2, $3)
ON CONFLICT (upstream) DO UPDATE SET base_url = u.base_url
RETURNING u.upstream, u.base_url, u.key_mark
