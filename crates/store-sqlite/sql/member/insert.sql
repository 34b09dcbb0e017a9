-- An instance joins.
INSERT INTO members /* member/insert */
    (instance_id, service, host, pid, metadata, joined_at, heartbeat_at,
    boot_id, lock_device, lock_inode, lock_path)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7, ?8, ?9, ?10)
