-- An instance holds a lock of its machine's kernel on a file of its own: who gets that lock knows that it is dead.
ALTER TABLE members ADD COLUMN boot_id TEXT;
ALTER TABLE members ADD COLUMN lock_device INTEGER;
ALTER TABLE members ADD COLUMN lock_inode INTEGER;
ALTER TABLE members ADD COLUMN lock_path TEXT;
