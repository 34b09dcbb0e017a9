-- A lease whose one line runs alone in its instance: only such a line is given up on when the lease is lost.
ALTER TABLE leases ADD COLUMN alone INTEGER NOT NULL DEFAULT 0;
-- How many attempts in a row an entry of a line's history stands for.
ALTER TABLE attempts ADD COLUMN times INTEGER NOT NULL DEFAULT 1;
