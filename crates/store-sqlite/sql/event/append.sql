-- An event at its version, last in the feed.
INSERT INTO events /* event/append */ (owner, stream, version, id, kind, payload, headers, at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
