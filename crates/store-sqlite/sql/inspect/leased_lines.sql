-- The outstanding lines of one lease.
SELECT /* inspect/leased_lines */ lines FROM leases WHERE id = ?1
