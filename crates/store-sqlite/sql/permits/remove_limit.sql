-- The target has no limit any more.
DELETE FROM targets /* permits/remove_limit */ WHERE target = ?1
