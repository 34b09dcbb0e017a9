-- A lease whose one line runs alone in its instance: only such a line is given up on when the lease is lost.
ALTER TABLE windrow.leases ADD COLUMN alone boolean NOT NULL DEFAULT false;
-- How many attempts in a row an entry of a line's history stands for.
ALTER TABLE windrow.attempts ADD COLUMN times int NOT NULL DEFAULT 1;
