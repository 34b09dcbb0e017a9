-- An instance joins.
INSERT INTO members /* member/insert */
    (instance_id, service, host, pid, metadata, joined_at, heartbeat_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)
