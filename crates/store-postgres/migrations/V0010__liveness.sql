-- An instance holds a lock of its machine's kernel on a file of its own: who gets that lock knows that it is dead.
ALTER TABLE windrow.members ADD COLUMN boot_id text;
ALTER TABLE windrow.members ADD COLUMN lock_device bigint;
ALTER TABLE windrow.members ADD COLUMN lock_inode bigint;
ALTER TABLE windrow.members ADD COLUMN lock_path text;
