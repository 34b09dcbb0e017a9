-- What is known of upstreams, by name.
SELECT /* upstream/upstreams */ upstream, base_url, key_mark FROM windrow.upstreams ORDER BY upstream LIMIT $1
