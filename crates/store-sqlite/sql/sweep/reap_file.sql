-- The row of a dropped file, last of all.
DELETE FROM files /* sweep/reap_file */ WHERE id = ?1 AND state = 'dropped' AND ?2 > 0
